"""A session: one client on one connection, from its hello to its last answer.

::

    NEW ──hello──▶ AUTHENTICATING ──welcome──▶ OPEN ──drain, disconnect or bye──▶ LEAVING
     │                   │                      │                                   │
     └───────────────────┴────── closed ────────┴───────────────────────────────────┘
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from stafette.broker.core.operation import LARGE_SEND, SEND, Operation, operation_of
from stafette.broker.limits import LARGE_SEND_BYTES
from stafette.model import Mode, Selection
from stafette.protocol.messages import Request

if TYPE_CHECKING:
    from stafette.broker.core.effects import Connection
    from stafette.broker.tracing import RequestTiming


class State(Enum):
    """Where a session is in its life."""

    NEW = auto()
    AUTHENTICATING = auto()
    OPEN = auto()
    LEAVING = auto()
    CLOSED = auto()


# What may follow what; an illegal step is a failed look-up.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.NEW: frozenset({State.AUTHENTICATING, State.LEAVING, State.CLOSED}),
    State.AUTHENTICATING: frozenset({State.OPEN, State.LEAVING, State.CLOSED}),
    State.OPEN: frozenset({State.LEAVING, State.CLOSED}),
    State.LEAVING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}


def session_number(shown: int | None) -> int | None:
    """What identifies a session in the database. It does not tell what the client shows, which is a secret."""
    if not shown:
        return None
    return int.from_bytes(hashlib.sha256(shown.to_bytes(8)).digest()[:8], signed=True)


class Ticket:
    """One request on its way to its answer."""

    __slots__ = ("accepted_at", "cancelled_by", "deadline", "request", "session", "size")

    def __init__(self, session: Session, request: Request, accepted_at: float, size: int = 0) -> None:
        self.session = session
        self.request = request
        self.accepted_at = accepted_at
        """When its turn came: the earlier requests of its session were done."""
        self.size = size
        """Its bytes, as limits count them."""
        self.deadline = 0.0
        """When a read that got nothing stops waiting; 0: not tried yet. A waiting read does not block its session."""
        self.cancelled_by: Ticket | None = None
        """The `Cancel` of a read that is in the database: it is executed when the read is back."""


class Session:
    """The state of one connection's client. Kept small: thousands of them are idle."""

    __slots__ = (
        "backlog",
        "client",
        "connection",
        "disconnecting",
        "in_flight",
        "in_flight_bytes",
        "max_answer",
        "mode",
        "name",
        "number",
        "run_size",
        "state",
        "timeout",
        "timings",
        "token",
        "unread_before",
        "write_paused",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.state = State.NEW
        self.timeout = 0.0
        self.client = 0
        self.number: int | None = None
        """What identifies the session on any connection (`session_number`); None: the client shows no number."""
        self.token = 0
        """What tells this connection from others of the same client."""
        self.name = ""
        self.mode: Mode = "read-only"
        self.max_answer: int | None = None
        """Bytes of the largest answer that the client takes; None: any."""
        self.backlog: deque[Ticket] | None = None
        """Requests that wait for an earlier one of this session."""
        self.run_size = 0
        """Requests of the run that is dispatched; further ones wait in the backlog."""
        self.in_flight = 0
        """Requests accepted and not yet answered."""
        self.in_flight_bytes = 0
        """Their bytes."""
        self.disconnecting = False
        """Whether an operator has ended the session, and the client has not yet left. It may connect again."""
        self.write_paused = False
        """Whether the client has so many unread bytes that its requests are not processed."""
        self.unread_before = 0
        """Unread bytes at the last check."""
        self.timings: dict[int, RequestTiming] | None = None
        """Timings of the requests in flight, if they are traced."""

    def step(self, state: State) -> None:
        """Change the state; an illegal transition is a defect."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"a session cannot go from {self.state} to {state}")
        self.state = state

    def enqueue(self, request: Request, size: int) -> None:
        """Accept a request; it runs after the earlier ones."""
        if self.backlog is None:
            self.backlog = deque()
        self.in_flight += 1
        self.in_flight_bytes += size
        self.backlog.append(Ticket(self, request, 0.0, size))

    def take_backlog(self) -> Sequence[Ticket]:
        """Remove and return the requests that are not yet dispatched."""
        backlog, self.backlog = self.backlog or (), None
        self.in_flight -= len(backlog)
        self.in_flight_bytes -= sum(ticket.size for ticket in backlog)
        return backlog

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """Requests of the dispatched run that the database did not come to: they are the next."""
        if self.backlog is None:
            self.backlog = deque()
        self.backlog.extendleft(reversed(tickets))

    def next_run(self, limit: int, byte_limit: int, now: float) -> tuple[Operation, list[Ticket]]:
        """Take the next requests that may share a batch, in their order; the backlog must not be empty.

        A session has one run dispatched at a time, so its requests take effect in the order in which they were sent.
        """
        backlog = self.backlog
        assert backlog
        first = backlog.popleft()
        first.accepted_at = now
        operation = operation_of(first.request)
        run, size = [first], first.size
        selections: dict[str | None, Selection] = {}
        if backlog and operation.combines(selections, first.request):
            while (
                backlog
                and len(run) < limit
                and size + backlog[0].size <= byte_limit
                and operation_of(backlog[0].request) is operation
                and operation.combines(selections, backlog[0].request)
            ):
                ticket = backlog.popleft()
                ticket.accepted_at = now
                run.append(ticket)
                size += ticket.size
        self.run_size = len(run)
        return LARGE_SEND if operation is SEND and size >= LARGE_SEND_BYTES else operation, run
