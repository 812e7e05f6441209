"""The state of a conversation, and what it makes possible.

A command has needs; where one of them is not met, the command is neither listed nor completed, and who types it all
the same reads why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stafette.client.address import Address
from stafette.client.sync import Client, Lease
from stafette.errors import LeaseLost
from stafette.model import Message, Mode


@dataclass(frozen=True)
class Start:
    """How the shell was called: whom to reach, and as whom."""

    url: str | None = None
    name: str | None = None
    secret: str | None = field(default=None, repr=False)
    data: Path | None = None
    mode: Mode = "full"


@dataclass
class Held:
    """A lease, its message, and when it ends by our clock."""

    lease: Lease
    message: Message
    deadline: float

    @property
    def seconds_left(self) -> float:
        """Seconds for which the message is still ours."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass
class State:
    """All that one command leaves for the next."""

    start: Start = field(default_factory=Start)
    client: Client | None = None
    url: str | None = None
    """Where we are connected, or were last."""
    name: str | None = None
    """As whom; the name may have been chosen for us."""
    mode: Mode = "full"
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """By name: those given, and those asked for; kept for as long as the shell lives."""
    away: bool = False
    """Whether no broker could be reached lately; the session is still ours and may go on."""
    held: Held | None = None
    last: Message | None = None
    """The message that was taken last, which can be replied to."""
    timing: bool = False
    took: float | None = None
    """Seconds of the last command."""
    over: bool = False
    """Whether the person is leaving."""

    @property
    def holding(self) -> bool:
        """Whether a lease is held that has not run out."""
        return self.held is not None and self.held.seconds_left > 0

    @property
    def answerable(self) -> Message | None:
        """The message that a reply would go to."""
        return self.held.message if self.held is not None and self.holding else self.last

    def connected(self, client: Client, url: str, mode: Mode) -> None:
        """A broker let us in."""
        self.client, self.url, self.name, self.mode = client, url, client.name, mode

    def end_lease(self, end: Callable[[Lease], None]) -> Held:
        """Ack or nack what is held, and return it; a lease that was lost is not held any more, either."""
        held = self.held
        assert held is not None
        try:
            end(held.lease)
        except LeaseLost:
            self.held = None
            raise
        self.held = None
        return held

    def disconnected(self) -> None:
        """Forget what belonged to the connection."""
        self.client = self.held = self.last = None
        self.away = False


class Need(NamedTuple):
    """What must be so for a command to be possible, and what to say where it is not."""

    is_met: Callable[[State], bool]
    reason: str


CONNECTED = Need(lambda state: state.client is not None, "you are not connected; type `connect` first")
NOT_CONNECTED = Need(lambda state: state.client is None, "you are connected; type `disconnect` first")
MAY_CHANGE = Need(lambda state: state.mode == "full", "you are read-only here and may only look")
LEASE = Need(lambda state: state.holding, "no lease is held; `lease` takes one")
NO_LEASE = Need(lambda state: not state.holding, "a lease is held; end it with `ack` or `nack` first")
ANSWERABLE = Need(
    lambda state: state.answerable is not None, "there is nothing to reply to; `lease` or `receive` a message first"
)

_LOOK = (CONNECTED,)
_CHANGE = (CONNECTED, MAY_CHANGE)
_END_LEASE = (CONNECTED, LEASE)

_NEEDS: dict[tuple[str, ...], tuple[Need, ...]] = {
    ("connect",): (NOT_CONNECTED,),
    **dict.fromkeys([("help",), (r"\timing",), ("quit",)], ()),
    **dict.fromkeys([("disconnect",), ("ping",), ("peek",), ("browse",), ("queue",), ("client",)], _LOOK),
    **dict.fromkeys([("queue", "ls"), ("queue", "info"), ("client", "ls"), ("client", "info")], _LOOK),
    **dict.fromkeys([("ack",), ("nack",), ("extend",)], _END_LEASE),
    ("lease",): (*_CHANGE, NO_LEASE),
    ("reply",): (*_CHANGE, ANSWERABLE),
}
"""By command; whatever is not listed may change something."""


def unmet(command: tuple[str, ...], state: State) -> str | None:
    """Why a command is not possible now; None when it is."""
    return next((need.reason for need in _NEEDS.get(command, _CHANGE) if not need.is_met(state)), None)


def needs_connection(command: tuple[str, ...]) -> bool | None:
    """Whether a command needs a broker; None when it has no needs at all."""
    needs = _NEEDS.get(command, _CHANGE)
    return CONNECTED in needs if needs else None


LEASE_MARK = "*"


def prompt(state: State) -> str:
    """What stands before the cursor: who and where, marked while a lease is held."""
    if state.client is None or state.url is None:
        return "not connected> "
    mark = LEASE_MARK if state.holding else ""
    remarks = (" (no broker)" if state.away else "") + (" (read-only)" if state.mode != "full" else "")
    return f"{state.client.name}@{broker_name(state.url)}{remarks}{mark}> "


def toolbar(state: State) -> str:
    """What stands below: the connection, the lease, the clock."""
    if state.client is None or state.url is None:
        parts = ["not connected"]
    else:
        parts = [f"{state.client.name} at {state.url}" + (", read-only" if state.mode != "full" else "")]
    if state.away:
        parts.append("no broker can be reached")
    if state.held is not None:
        message = state.held.message
        left = f"{state.held.seconds_left:.0f} s left" if state.holding else "ran out"
        parts.append(f"lease on message {message.id} of {message.queue}: {left}")
    if state.timing:
        parts.append("timing on" + ("" if state.took is None else f", last {state.took * 1000:.1f} ms"))
    return " | ".join(parts)


def broker_name(url: str) -> str:
    """Host and port of the first broker, and how many others there are."""
    host, port = (brokers := Address.parse(url).brokers)[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return first if len(brokers) == 1 else f"{first}+{len(brokers) - 1}"
