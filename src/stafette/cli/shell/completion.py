"""What could be typed next: commands that are possible now, their options, and names that the broker knows."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

from stafette.cli.broker_link import DEFAULT_URL
from stafette.cli.shell.commands import Command, possible
from stafette.cli.shell.state import State
from stafette.errors import StafetteError

FRESH_SECONDS = 2.0
"""How long names are good for: a few presses of the key, not the time in which somebody makes a queue."""

PATIENCE_SECONDS = 1.0
"""How long a key may wait for the broker."""

_OPTION = re.compile(r"(?P<name>[a-z][a-z-]*)=(?P<value>.*)")


@dataclass(frozen=True)
class Slot:
    """The place that the cursor is at."""

    typed: str = ""
    """What of it is there."""
    texts: tuple[str, ...] = ()
    """What could be there."""
    names: str = ""
    """What else: the name of a queue or of a client."""

    def candidates(self, names: Sequence[str] = ()) -> list[str]:
        """What the typed could become; an option is complete without the space that follows other words."""
        found = [*self.texts, *(shlex.quote(name) for name in names)]
        return [text if text.endswith("=") else f"{text} " for text in found if text.startswith(self.typed)]


def slot(before: str, state: State) -> Slot:
    """Where the cursor is, after what stands before it."""
    *earlier, typed = before.lstrip().split(" ")
    pieces = [piece for piece in earlier if piece]
    now_possible = possible(state)
    if not pieces:
        return Slot(typed, tuple(name for one in now_possible for name in (one.name, *one.aliases) if name != "?"))
    command = next((one for one in now_possible if pieces[0] in (one.name, *one.aliases)), None)
    if command is None or "--" in pieces:
        return Slot(typed)
    if option := _OPTION.fullmatch(typed):
        kind = command.options.get(option["name"])
        return Slot(option["value"], kind.choices, kind.names) if kind else Slot(typed)
    return _word(command, pieces[1:], typed, state)


def _word(command: Command, pieces: list[str], typed: str, state: State) -> Slot:
    given = {found["name"] for piece in pieces if (found := _OPTION.fullmatch(piece))}
    options = tuple(f"{name}=" for name in command.options if name not in given)
    position = len(pieces) - len(given)
    wanted = command.words[position] if position < len(command.words) else ""
    if wanted == "queue" and "," in command.usage:
        typed = typed.rpartition(",")[2]
    match wanted:
        case "queue" | "client":
            return Slot(typed, options, wanted)
        case "command":
            return Slot(typed, tuple(one.name for one in possible(state)))
        case "url":
            return Slot(typed, (*dict.fromkeys([state.url or DEFAULT_URL, DEFAULT_URL]), "as", *options))
        case "self":
            return Slot(typed, tuple(name for name in (state.name,) if name))
    if position and command.words[:1] == ("url",) and pieces[0] == "as":  # no URL was given
        return Slot(typed, tuple(name for name in (state.name,) if name) if position == 1 else options)
    return Slot(typed, ((wanted,) if wanted else ()) + options)


class Names:
    """The names of queues and clients, asked for when they are wanted and kept for a moment."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[str, tuple[float, object, list[str]]] = {}

    async def of(self, what: str) -> list[str]:
        """All names of that; none when the broker does not answer at once."""
        client = self._state.client
        if client is None or not what:
            return []
        at, whose, names = self._known.get(what, (0.0, None, []))
        if whose is client and time.monotonic() - at < FRESH_SECONDS:
            return names
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                found = await (client.queues() if what == "queue" else client.clients())
        except (StafetteError, TimeoutError):
            return names
        names = [one.name for one in found]
        self._known[what] = (time.monotonic(), client, names)
        return names
