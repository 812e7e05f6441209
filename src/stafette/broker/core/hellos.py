"""Hellos on their way to a welcome, and who gives way when there are too many.

::

                 ┌──────────── secret is right ────────────┐
                 ▼                                         │
    hello ──▶ gathered ──▶ in a call of the database ──▶ to check ──▶ being checked
                                 │                                      │
                                 └──▶ welcome or refusal ◀── is wrong ──┘

There is one call at a time; hellos that come meanwhile go together in the next. Secrets are checked a few at a time,
because that is slow by design. Whoever says nothing, or waits for a call or a check when too many do, gives way to
newcomers, the oldest first: strangers can come as often as they like, but never keep others out by staying.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias

import msgspec

from stafette.broker.core.session import Session
from stafette.broker.limits import (
    HELLO_BATCH,
    PENDING_HELLOS,
    SECRETS_AT_ONCE,
    SECRETS_WAITING,
    SILENT_CONNECTIONS,
    SILENT_SECONDS,
)
from stafette.errors import StafetteError
from stafette.model import Mode
from stafette.protocol.messages import Hello


class PendingHello:
    """One hello on its way."""

    __slots__ = ("hello", "secret", "session")

    def __init__(self, session: Session, hello: Hello) -> None:
        self.session = session
        self.hello = hello
        self.secret: str | None = None
        """The hash with which its secret agrees, once that is known."""


class Opened(msgspec.Struct, frozen=True):
    """The database has opened or continued the session of a hello."""

    client: int
    name: str
    mode: Mode
    token: int


class SecretDue(msgspec.Struct, frozen=True):
    """The secret of a hello has to be compared with a stored hash; without one, to be hashed for a new client."""

    stored: str | None


HelloOutcome: TypeAlias = Opened | SecretDue | StafetteError


class Hellos:
    """All connections that are not yet welcome."""

    def __init__(self) -> None:
        # Each in the order in which the waiting began.
        self._silent: dict[Session, float] = {}
        self._gathered: dict[Session, PendingHello] = {}
        self._to_check: dict[Session, tuple[PendingHello, str | None]] = {}
        self._in_call = 0
        self._being_checked = 0

    @property
    def pending(self) -> int:
        """Hellos that are not yet answered."""
        return len(self._gathered) + len(self._to_check) + self._in_call + self._being_checked

    # In

    def connect(self, session: Session, now: float) -> None:
        """A connection is open, and has said nothing yet."""
        self._silent[session] = now

    def gather(self, pending: PendingHello) -> None:
        """A hello is ready for a call."""
        self._silent.pop(pending.session, None)
        self._gathered[pending.session] = pending

    def await_check(self, pending: PendingHello, stored: str | None) -> None:
        """A hello cannot go on until its secret is checked."""
        self._to_check[pending.session] = (pending, stored)

    def call_ended(self) -> None:
        """The call is back."""
        self._in_call = 0

    def check_ended(self) -> None:
        """A secret has been checked."""
        self._being_checked -= 1

    def remove(self, session: Session) -> None:
        """A connection is refused or closed."""
        self._silent.pop(session, None)
        self._gathered.pop(session, None)
        self._to_check.pop(session, None)

    # Out

    def next_call(self) -> list[PendingHello]:
        """The hellos for the next call, the oldest first; none while a call runs. A name is in it once: of two
        connections of one client the later has to continue the session of the earlier.
        """
        if self._in_call:
            return []
        names: set[str] = set()
        hellos: list[PendingHello] = []
        for pending in self._gathered.values():
            if pending.hello.name not in names:
                names.add(pending.hello.name)
                hellos.append(pending)
                if len(hellos) == HELLO_BATCH:
                    break
        for pending in hellos:
            del self._gathered[pending.session]
        self._in_call = len(hellos)
        return hellos

    def next_check(self) -> tuple[PendingHello, str | None] | None:
        """The next secret to check, with the hash to compare it with; None if there is none, or if enough are being
        checked.
        """
        if not self._to_check or self._being_checked >= SECRETS_AT_ONCE:
            return None
        self._being_checked += 1
        return self._to_check.pop(next(iter(self._to_check)))

    def surplus_silent(self, now: float) -> list[Session]:
        """The connections that have said nothing for longest, and have to give way."""
        oldest = _oldest(self._silent, len(self._silent) - SILENT_CONNECTIONS)
        return [session for session in oldest if now - self._silent[session] >= SILENT_SECONDS]

    def surplus_hellos(self) -> list[Session]:
        """The connections whose hellos have waited longest, and have to give way."""
        to_check = _oldest(self._to_check, len(self._to_check) - SECRETS_WAITING)
        return to_check + _oldest(self._gathered, self.pending - len(to_check) - PENDING_HELLOS)

    def all_waiting(self) -> list[PendingHello]:
        """The hellos that are neither in a call nor being checked."""
        return [*self._gathered.values(), *(pending for pending, _ in self._to_check.values())]


def _oldest(sessions: Iterable[Session], count: int) -> list[Session]:
    return list(islice(sessions, max(0, count)))
