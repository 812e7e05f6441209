"""Batching: while the database connections are busy, requests gather; when one is free, all of them go in one call, one
commit, one round trip.

There are no timers: at low load a request goes alone and at once, at high load batches grow by themselves. Requests
gather in runs: consecutive requests of one session that may share a batch. A run is never split.
"""

from __future__ import annotations

import itertools
from collections import deque

from stafette.broker.core.operation import Operation
from stafette.broker.core.session import State, Ticket
from stafette.broker.metrics import Metrics

WORTH_A_CALL = 64
"""Runs that must have gathered for a second call of the same operation beside the first. Fewer go with the next batch:
one commit for 32 is cheaper than two for 16 (docs/performance.md)."""


class Batch:
    """Requests that go to the database in one call."""

    __slots__ = ("late", "operation", "tickets")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.tickets: list[Ticket] = []
        self.late: list[Ticket] = []
        """Requests that are not sent: their time is up, or the client that would get the message has gone."""


class Dispatcher:
    """Gathers runs by operation and hands them to free database connections."""

    def __init__(self, *, connections: int, batch: int, batch_bytes: int, metrics: Metrics) -> None:
        self._free = connections
        self._batch = batch
        self._batch_bytes = batch_bytes
        self._metrics = metrics
        self._runs: dict[Operation, deque[tuple[int, list[Ticket]]]] = {}
        self._submitted = False
        self._calls: dict[Operation, int] = {}
        """Calls in progress, by operation."""
        self._numbers = itertools.count()
        self.outstanding = 0
        """Requests submitted and not yet back."""

    def submit(self, operation: Operation, run: list[Ticket]) -> None:
        """Add a run; it goes with the others that have gathered."""
        self.outstanding += len(run)
        runs = self._runs.get(operation)
        if runs is None:
            runs = self._runs[operation] = deque()
        runs.append((next(self._numbers), run))
        self._submitted = True

    @property
    def has_news(self) -> bool:
        """Whether `next_batch` may return a batch that it could not at its last call."""
        return self._submitted and self._free > 0

    def next_batch(self, now: float) -> Batch | None:
        """The next batch, which takes a connection unless all of it is late; None if there is nothing to start."""
        self._submitted = False
        operation = self._longest_waiting() if self._free else None
        if operation is None:
            return None
        batch = self._take(operation, now)
        if batch.tickets:
            self._free -= 1
            self._calls[operation] = self._calls.get(operation, 0) + 1
        return batch

    def finished(self, batch: Batch) -> None:
        """A batch is back: its connection is free again."""
        self._free += 1
        self._calls[batch.operation] -= 1

    def _longest_waiting(self) -> Operation | None:
        """The operation whose first run has waited longest, of those that justify another call."""
        heads = [
            (runs[0][0], operation)
            for operation, runs in self._runs.items()
            if runs and (not self._calls.get(operation) or self._may_go_beside(operation, len(runs)))
        ]
        return min(heads, key=lambda head: head[0])[1] if heads else None

    def _may_go_beside(self, operation: Operation, runs: int) -> bool:
        """Whether a second call of an operation is worth a connection."""
        return not operation.alone and (runs >= WORTH_A_CALL or not operation.batched)

    def _take(self, operation: Operation, now: float) -> Batch:
        """The runs that gathered for an operation, up to a batch in requests and bytes; at least one run."""
        runs = self._runs[operation]
        room = self._batch if operation.batched else 1
        byte_room = self._batch_bytes
        batch = Batch(operation)
        tickets, late = batch.tickets, batch.late
        while runs and len(tickets) < room and byte_room > 0:
            if tickets and operation.alone and sum(ticket.size for ticket in runs[0][1]) > byte_room:
                break
            run = runs.popleft()[1]
            if not run[0].deadline:
                self._metrics.queue_seconds.add(now - run[0].accepted_at, len(run))
            for ticket in run:
                session = ticket.session
                if (operation.hands_out and session.state is State.CLOSED) or (
                    now - ticket.accepted_at > session.timeout and not ticket.deadline
                ):
                    late.append(ticket)
                else:
                    tickets.append(ticket)
                    byte_room -= ticket.size
        return batch
