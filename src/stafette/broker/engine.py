"""The batching engine: while the database connections are busy, requests gather; when one comes free, all that gathered
goes in one call, one commit, one round trip.

There are no timers: at low load a request goes alone and at once, at high load batches grow by themselves. What gathers
is runs: consecutive requests of one session that may share a batch. A run is never split, and a session has one run
under way at a time, so the requests of a connection take effect in the order in which they were sent.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stafette.broker.figures import Figures
from stafette.broker.operations import Operation, Outcome
from stafette.broker.session import Session, State
from stafette.errors import InternalError, RequestTimeout, StafetteError
from stafette.protocol.messages import Answer, Request, failure

if TYPE_CHECKING:
    from stafette.broker.tracing import Tracing

log = logging.getLogger(__name__)

WORTH_A_CALL = 64
"""Runs that must have gathered for a second call of the same operation beside the first. Fewer go with the next batch:
one commit for 32 is cheaper than two for 16 (docs/performance.md)."""

_NOT_STARTED = "the broker could not start on this in time; nothing has happened"


class Pending:
    """One accepted request, on its way to an answer."""

    __slots__ = ("accepted_at", "request", "session", "until")

    def __init__(self, session: Session, request: Request, accepted_at: float) -> None:
        self.session = session
        self.request = request
        self.accepted_at = accepted_at
        self.until = 0.0
        """For a read that waits and has been tried: when it gives up. It no longer holds up its session then."""


class Engine:
    """Gathers runs by operation and sends them to the database in batches."""

    def __init__(
        self,
        *,
        connections: int,
        batch: int,
        deliver: Callable[[Pending, Answer], None],
        figures: Figures,
        tracing: Tracing | None = None,
    ) -> None:
        self._free = connections
        self._batch = batch
        self._deliver = deliver
        self._gathered: dict[Operation, deque[tuple[int, list[Pending]]]] = {}
        self._calls: dict[Operation, int] = {}
        """Calls under way, by operation."""
        self._numbers = itertools.count()
        self._dispatching = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._outstanding = 0
        self._nothing_outstanding = asyncio.Event()
        self._nothing_outstanding.set()
        self._figures = figures
        self._tracing = tracing

    @property
    def outstanding(self) -> int:
        """Requests taken on and not yet answered."""
        return self._outstanding

    @property
    def batches(self) -> int:
        """Calls of the database so far."""
        return sum(self._figures.batch_requests.counts)

    def submit(self, operation: Operation, run: list[Pending]) -> None:
        """Take on a run; it goes with whatever else arrives in this turn of the loop."""
        self._outstanding += len(run)
        self._nothing_outstanding.clear()
        runs = self._gathered.get(operation)
        if runs is None:
            runs = self._gathered[operation] = deque()
        runs.append((next(self._numbers), run))
        if self._free and not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    async def drained(self) -> None:
        """Wait until everything taken on has been answered."""
        await self._nothing_outstanding.wait()

    def _dispatch(self) -> None:
        self._dispatching = False
        while self._free and (operation := self._longest_waiting()):
            if batch := self._take(operation):
                self._free -= 1
                self._calls[operation] = self._calls.get(operation, 0) + 1
                task = asyncio.create_task(self._execute(operation, batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _longest_waiting(self) -> Operation | None:
        """The operation whose first run has waited longest, of those for which another call is worth its commit."""
        heads = [
            (runs[0][0], operation)
            for operation, runs in self._gathered.items()
            if runs and (not self._calls.get(operation) or not operation.batched or len(runs) >= WORTH_A_CALL)
        ]
        return min(heads, key=lambda head: head[0])[1] if heads else None

    def _take(self, operation: Operation) -> list[Pending]:
        """All that gathered for an operation, up to the size of a batch, without those nobody waits for any more."""
        runs = self._gathered[operation]
        room = self._batch if operation.batched else 1
        batch: list[Pending] = []
        now = time.monotonic()
        while runs and len(batch) < room:
            run = runs.popleft()[1]
            if not run[0].until:
                self._figures.queue_seconds.add(now - run[0].accepted_at, len(run))
            for pending in run:
                if operation.hands_out and pending.session.state is State.CLOSED:
                    self._answer(pending, RequestTimeout(_NOT_STARTED))  # nobody is there to be given a message
                elif now - pending.accepted_at > pending.session.timeout and not pending.until:
                    self._answer(pending, RequestTimeout(_NOT_STARTED))
                else:
                    batch.append(pending)
        return batch

    async def _execute(self, operation: Operation, batch: list[Pending]) -> None:
        started = time.perf_counter_ns()
        outcomes: Sequence[Outcome]
        try:
            outcomes = await operation.perform([(pending.session, pending.request) for pending in batch])
        except StafetteError as error:
            outcomes = [error] * len(batch)
        except Exception:
            log.exception("%s failed", operation)
            outcomes = [InternalError("the broker failed; its log says why")] * len(batch)
        ended = time.perf_counter_ns()
        self._figures.database_seconds.add((ended - started) / 1e9)
        self._figures.batch_requests.add(len(batch))
        self._free += 1
        self._calls[operation] -= 1
        self._dispatch()  # before the answers go out: the database need not wait for that
        if self._tracing is not None:
            self._tracing.performed(batch, started, ended)
        for pending, outcome in zip(batch, outcomes, strict=True):
            self._answer(pending, outcome)

    def _answer(self, pending: Pending, outcome: Outcome) -> None:
        answer = failure(pending.request.id, outcome) if isinstance(outcome, StafetteError) else outcome
        self._outstanding -= 1
        self._deliver(pending, answer)
        if not self._outstanding:
            self._nothing_outstanding.set()
