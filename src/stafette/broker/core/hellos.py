"""Hellos on their way to a welcome, and who gives way when there are too many.

::

                 ┌──────────── secret is right ────────────┐
                 ▼                                         │
    hello ──▶ gathered ──▶ in a call of the database ──▶ to check ──▶ being checked
                                 │                                      │
                                 └──▶ welcome or refusal ◀── is wrong ──┘

There is one call at a time; hellos that come meanwhile go together in the next. Secrets are checked a few at a time,
because that is slow by design. Whoever is not in a call or being checked gives way to newcomers, the oldest first: what
a stranger can do is to come more often, and an honest client comes again as well.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stafette.broker.core.session import Session
from stafette.broker.limits import HELLO_BATCH, SECRETS_AT_ONCE, UNWELCOMED
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
        self._waiting: dict[Session, None] = {}
        """Connections that may give way, in the order in which their waiting began."""
        self._gathered: dict[Session, PendingHello] = {}
        self._to_check: dict[Session, tuple[PendingHello, str | None]] = {}
        self._in_call = 0
        self._being_checked = 0

    def __len__(self) -> int:
        """Connections that are not yet welcome."""
        return len(self._waiting) + self._in_call + self._being_checked

    @property
    def pending(self) -> int:
        """Hellos that are not yet answered."""
        return len(self._gathered) + len(self._to_check) + self._in_call + self._being_checked

    # In

    def connect(self, session: Session) -> None:
        """A connection is open, and has said nothing yet."""
        self._waiting[session] = None

    def gather(self, pending: PendingHello) -> None:
        """A hello is ready for a call."""
        self._waiting[pending.session] = None
        self._gathered[pending.session] = pending

    def await_check(self, pending: PendingHello, stored: str | None) -> None:
        """A hello cannot go on until its secret is checked."""
        self._waiting[pending.session] = None
        self._to_check[pending.session] = (pending, stored)

    def call_ended(self) -> None:
        """The call is back."""
        self._in_call = 0

    def check_ended(self) -> None:
        """A secret has been checked."""
        self._being_checked -= 1

    def remove(self, session: Session) -> PendingHello | None:
        """A connection is refused or closed; returns the hello that waited, if there is one."""
        self._waiting.pop(session, None)
        check = self._to_check.pop(session, None)
        return self._gathered.pop(session, None) or (check[0] if check else None)

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
            del self._waiting[pending.session]
        self._in_call = len(hellos)
        return hellos

    def next_check(self) -> tuple[PendingHello, str | None] | None:
        """The next secret to check, with the hash to compare it with; None if there is none, or if enough are being
        checked.
        """
        if not self._to_check or self._being_checked >= SECRETS_AT_ONCE:
            return None
        session = next(iter(self._to_check))
        del self._waiting[session]
        self._being_checked += 1
        return self._to_check.pop(session)

    def surplus(self) -> Session | None:
        """The connection that has to give way; None if there is room."""
        if len(self) <= UNWELCOMED or not self._waiting:
            return None
        return next(iter(self._waiting))

    def all_waiting(self) -> list[PendingHello]:
        """The hellos that are neither in a call nor being checked."""
        return [*self._gathered.values(), *(pending for pending, _ in self._to_check.values())]
