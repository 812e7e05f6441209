"""A session: one client on one connection, from its hello to its last answer.

::

    NEW ──hello──▶ GREETING ──welcome──▶ OPEN ──drain or goodbye──▶ LEAVING
     │                │                   │                           │
     └────────────────┴──── closed ───────┴───────────────────────────┘
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from stafette.model import Mode
from stafette.protocol.frames import frame
from stafette.protocol.messages import Answer, Request, encode

if TYPE_CHECKING:
    from stafette.broker.connection import Connection
    from stafette.broker.tracing import Mark


class State(Enum):
    """Where a session is in its life."""

    NEW = auto()
    GREETING = auto()
    OPEN = auto()
    LEAVING = auto()
    CLOSED = auto()


# What may follow what; an illegal step is a failed look-up.
STEPS: dict[State, frozenset[State]] = {
    State.NEW: frozenset({State.GREETING, State.LEAVING, State.CLOSED}),
    State.GREETING: frozenset({State.NEW, State.OPEN, State.LEAVING, State.CLOSED}),
    State.OPEN: frozenset({State.LEAVING, State.CLOSED}),
    State.LEAVING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}


class Session:
    """What the broker knows of one connection's client. Kept small: thousands of them are idle."""

    __slots__ = (
        "backlog",
        "client",
        "connection",
        "dismissed",
        "in_flight",
        "marks",
        "mode",
        "name",
        "state",
        "timeout",
        "token",
        "under_way",
    )

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.connection = connection
        self.state = State.NEW
        self.timeout = timeout
        self.client = 0
        self.token = 0
        self.name = ""
        self.mode: Mode = "read-only"
        self.backlog: deque[Request] | None = None
        """Requests that wait for an earlier one of this session."""
        self.under_way = 0
        """Requests of the run that the engine has; further ones wait in the backlog."""
        self.in_flight = 0
        """Requests accepted and not yet answered."""
        self.dismissed = False
        """Whether an operator has ended the session, and the client has not: it may ask elsewhere, or here anew."""

        self.marks: dict[int, Mark] | None = None
        """When the requests under way did what, if that is traced."""

    def step(self, state: State) -> None:
        """Go on to another state."""
        if state not in STEPS[self.state]:
            raise AssertionError(f"a session cannot go from {self.state} to {state}")
        self.state = state

    def answer(self, answer: Answer) -> None:
        """Send an answer."""
        self.send(frame(encode(answer)))

    def send(self, data: bytes) -> None:
        """Send bytes, if there is still somebody to read them."""
        if self.state is not State.CLOSED:
            self.connection.write(data)
