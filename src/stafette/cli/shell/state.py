"""The state of the shell, and which commands are possible in it.

A command has needs. If one is not met, the command is neither listed nor completed; typing it prints the reason.
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
    """The options of the shell: broker, name, secret and mode."""

    url: str | None = None
    name: str | None = None
    secret: str | None = field(default=None, repr=False)
    data: Path | None = None
    mode: Mode = "full"


@dataclass
class HeldLease:
    """A lease, its message, and when it ends by the local clock."""

    lease: Lease
    message: Message
    deadline: float

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease runs out."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass
class State:
    """What one command leaves for the next."""

    start: Start = field(default_factory=Start)
    client: Client | None = None
    url: str | None = None
    """URL of the current or last connection."""
    name: str | None = None
    """Name in the current or last connection; may be a default name."""
    mode: Mode = "full"
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Secrets by client name, from options and prompts; kept until the shell ends."""
    is_unreachable: bool = False
    """Whether the last attempt reached no broker; the session may still continue."""
    held_lease: HeldLease | None = None
    last_received: Message | None = None
    """The message received last, which `reply` can answer."""
    timing: bool = False
    last_seconds: float | None = None
    """Duration of the last command."""
    is_leaving: bool = False
    """Whether the shell ends after this command."""

    @property
    def holds_lease(self) -> bool:
        """Whether there is a lease that has not run out."""
        return self.held_lease is not None and self.held_lease.seconds_left > 0

    @property
    def message_to_answer(self) -> Message | None:
        """The message that `reply` answers: the held one, else the one received last."""
        return self.held_lease.message if self.held_lease is not None and self.holds_lease else self.last_received

    def connected(self, client: Client, url: str, mode: Mode) -> None:
        """Store the new connection."""
        self.client, self.url, self.name, self.mode = client, url, client.name, mode

    def end_lease(self, end: Callable[[Lease], None]) -> HeldLease:
        """Ack or nack the held lease with `end`, and return it; a lost lease is forgotten, too."""
        held = self.held_lease
        assert held is not None
        try:
            end(held.lease)
        except LeaseLost:
            self.held_lease = None
            raise
        self.held_lease = None
        return held

    def disconnected(self) -> None:
        """Forget everything that belonged to the connection."""
        self.client = self.held_lease = self.last_received = None
        self.is_unreachable = False


class Need(NamedTuple):
    """A condition of a command, and the reason to print if it is not met."""

    is_met: Callable[[State], bool]
    reason: str


CONNECTED = Need(lambda state: state.client is not None, "you are not connected; type `connect` first")
NOT_CONNECTED = Need(lambda state: state.client is None, "you are connected; type `disconnect` first")
MAY_CHANGE = Need(lambda state: state.mode == "full", "this connection is read-only")
LEASE = Need(lambda state: state.holds_lease, "there is no held message; `lease` one first")
NO_LEASE = Need(lambda state: not state.holds_lease, "there is a held message; `ack` or `nack` it first")
ANSWERABLE = Need(
    lambda state: state.message_to_answer is not None, "there is no message to answer; `lease` or `receive` one first"
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
"""Needs by command; a command that is not listed has those of a change."""


def unmet_need(command: tuple[str, ...], state: State) -> str | None:
    """The reason why a command is not possible now; None if it is possible."""
    return next((need.reason for need in _NEEDS.get(command, _CHANGE) if not need.is_met(state)), None)


def needs_connection(command: tuple[str, ...]) -> bool | None:
    """Whether a command needs a broker; None if it has no needs at all."""
    needs = _NEEDS.get(command, _CHANGE)
    return CONNECTED in needs if needs else None


LEASE_MARK = "*"


def prompt(state: State) -> str:
    """The prompt: client and broker, with a mark while a lease is held."""
    if state.client is None or state.url is None:
        return "not connected> "
    mark = LEASE_MARK if state.holds_lease else ""
    notes = (" (no broker)" if state.is_unreachable else "") + (" (read-only)" if state.mode != "full" else "")
    return f"{state.client.name}@{broker_name(state.url)}{notes}{mark}> "


def toolbar(state: State) -> str:
    """The line at the bottom: the connection, the lease, the time of the last command."""
    if state.client is None or state.url is None:
        parts = ["not connected"]
    else:
        parts = [f"{state.client.name} at {state.url}" + (", read-only" if state.mode != "full" else "")]
    if state.is_unreachable:
        parts.append("no broker is reachable")
    if state.held_lease is not None:
        message = state.held_lease.message
        time_left = f"{state.held_lease.seconds_left:.0f} s left" if state.holds_lease else "ran out"
        parts.append(f"lease on message {message.id} of {message.queue}: {time_left}")
    if state.timing:
        parts.append("timing on" + ("" if state.last_seconds is None else f", last {state.last_seconds * 1000:.1f} ms"))
    return " | ".join(parts)


def broker_name(url: str) -> str:
    """Host and port of the first broker, and the number of further ones."""
    host, port = (brokers := Address.parse(url).brokers)[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return first if len(brokers) == 1 else f"{first}+{len(brokers) - 1}"
