"""The state of a conversation, and what it makes possible.

A command names its needs; where one of them is not met, the command is neither shown nor completed, and who types it
all the same reads why.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stafette.client.address import Address
from stafette.client.aio import Client
from stafette.client.lease import Lease
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
    """A lease, and when it ends by our clock."""

    lease: Lease
    until: float

    @property
    def left(self) -> float:
        """Seconds for which the message is still ours."""
        return max(0.0, self.until - time.monotonic())


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
    """Whether the person wants to leave."""

    @property
    def holding(self) -> bool:
        """Whether a lease is held that has not run out."""
        return self.held is not None and self.held.left > 0

    @property
    def answerable(self) -> Message | None:
        """The message that a reply would go to."""
        return self.held.lease.message if self.held is not None and self.holding else self.last

    def connected(self, client: Client, url: str, mode: Mode) -> None:
        """A broker let us in."""
        self.client, self.url, self.name, self.mode = client, url, client.name, mode

    async def end_lease(self, ending: Awaitable[None]) -> None:
        """Ack or nack what is held; a lease that was lost is not held any more, either."""
        try:
            await ending
        except LeaseLost:
            self.held = None
            raise
        self.held = None

    def disconnected(self) -> None:
        """Forget what belonged to the connection."""
        self.client = self.held = self.last = None
        self.away = False


class Need(enum.Enum):
    """What must be so for a command to be possible."""

    CONNECTED = enum.auto()
    NOT_CONNECTED = enum.auto()
    MAY_CHANGE = enum.auto()
    LEASE = enum.auto()
    NO_LEASE = enum.auto()
    ANSWERABLE = enum.auto()


_MET: dict[Need, tuple[Callable[[State], bool], str]] = {
    Need.CONNECTED: (lambda state: state.client is not None, "you are not connected; type `connect` first"),
    Need.NOT_CONNECTED: (lambda state: state.client is None, "you are connected; type `disconnect` first"),
    Need.MAY_CHANGE: (lambda state: state.mode == "full", "you are read-only here and may only look"),
    Need.LEASE: (lambda state: state.holding, "no lease is held; `lease` takes one"),
    Need.NO_LEASE: (lambda state: not state.holding, "a lease is held; end it with `ack` or `nack` first"),
    Need.ANSWERABLE: (
        lambda state: state.answerable is not None,
        "there is nothing to reply to; `lease` or `receive` a message first",
    ),
}


def unmet(needs: Iterable[Need], state: State) -> str | None:
    """Why something is not possible now; None when it is."""
    for need in needs:
        is_met, sentence = _MET[need]
        if not is_met(state):
            return sentence
    return None


LEASE_MARK = "*"


def prompt(state: State) -> str:
    """What stands before the cursor: who and where, marked while a lease is held."""
    if state.client is None or state.url is None:
        return "not connected> "
    mark = LEASE_MARK if state.holding else ""
    remarks = (" (no broker)" if state.away else "") + (" (read-only)" if state.mode != "full" else "")
    return f"{state.client.name}@{place(state.url)}{remarks}{mark}> "


def toolbar(state: State) -> str:
    """What stands below: the connection, the lease, the clock."""
    if state.client is None or state.url is None:
        parts = ["not connected"]
    else:
        parts = [f"{state.client.name} at {state.url}" + (", read-only" if state.mode != "full" else "")]
    if state.away:
        parts.append("no broker can be reached")
    if state.held is not None:
        message = state.held.lease.message
        left = f"{state.held.left:.0f} s left" if state.holding else "ran out"
        parts.append(f"lease on message {message.id} of {message.queue}: {left}")
    if state.timing:
        parts.append("timing on" + ("" if state.took is None else f", last {state.took * 1000:.1f} ms"))
    return " | ".join(parts)


def place(url: str) -> str:
    """Host and port of the first broker, and how many others there are."""
    host, port = (brokers := Address.parse(url).brokers)[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return first if len(brokers) == 1 else f"{first}+{len(brokers) - 1}"
