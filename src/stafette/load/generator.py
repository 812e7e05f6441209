"""The load loop: participants that take steps, in closed and in open loops. `stafette bench`, the laboratory and loads
without a broker all use it.

A closed loop starts a participant's next step when the last has ended and the participant has thought. An open loop
starts steps when its schedule says so, whether earlier ones have ended or not. A generator that falls behind starts
what is due as fast as it can, and every step keeps its intended start. Response times count from there, so a stalled
system shows in them, and so does a stalled generator.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from stafette.client.tracing import CANCELLED, INTENDED
from stafette.errors import StafetteError, TryAgain
from stafette.load.precise_timer import SECOND, PreciseTimer
from stafette.load.self_check import SelfCheck

log = logging.getLogger(__name__)

GRACE_SECONDS = 15.0
"""How long steps that are still in progress at the end of the load may take."""

CANCEL_SECONDS = 1.0
"""How long a step may take to notice that it was cancelled."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
"""Seconds that a participant of a closed loop waits after a transient error. They double, or an outage would spin."""

STARTS_PER_TURN = 100
"""Due steps of an open loop that are started before other tasks on the event loop get their turn."""

INSTANT_STEP = SECOND // 50_000
"""A step that takes less than this, in nanoseconds, has awaited nothing, so other tasks have had no turn."""

Arrivals = Literal["poisson", "constant"]


class Defect(StafetteError):
    """A behaviour has a bug: it raised an error that is not a StafetteError."""


class Progress(msgspec.Struct, frozen=True, tag_field="event", tag="progress"):
    """Totals so far."""

    requests: int
    errors: int
    steps: int
    response_ms: float | None
    """Mean of the steps that succeeded since the last report, counted from their intended starts."""
    active: int
    """Number of participants that have joined."""


@dataclass(frozen=True)
class Participant:
    """One client at work."""

    name: str
    step: Callable[[], Awaitable[object]]
    rng: random.Random
    """The participant's own; its think times are drawn from it."""
    joins_at: float = 0.0
    """Seconds after the start of the load."""


@dataclass(frozen=True)
class ClientGroup:
    """The participants of one group in this process, by number."""

    behaviour: str
    """Its name, for messages about defects."""
    participants: Sequence[Participant]
    think_time: Callable[[random.Random], float] | None = None
    """Draws the seconds between the end of a step and the next step of a closed loop; None: no pause."""
    rate: float | None = None
    """Steps per second of each active participant, in an open loop."""
    gaps: Iterator[float] = field(default_factory=lambda: itertools.repeat(1.0))
    """Distances between the steps of an open loop, on average 1."""
    observe: Callable[[object, int, int], None] | None = None
    """Called after each step with its result or its StafetteError, its intended start and its actual start."""


def gaps(arrivals: Arrivals, rng: random.Random, phase: float = 0.0) -> Iterator[float]:
    """Distances between starts, on average 1: exponential, or constant after a first one of `phase`."""
    if arrivals == "constant":
        yield phase
        yield from itertools.repeat(1.0)
    while True:
        yield rng.expovariate(1.0)


def schedule(joins: Sequence[float], rate: float, distances: Iterator[float]) -> Iterator[tuple[float, int]]:
    """Endless start times of steps, in seconds, with the number of active participants; each of them adds `rate`."""
    now, distance = 0.0, next(distances)
    for active, until in enumerate((*joins, math.inf)):
        if pace := active * rate:
            while now + distance / pace < until:
                now += distance / pace
                yield now, active
                distance = next(distances)
            distance -= (until - now) * pace  # the rest is covered at the next pace
        now = until


class Generator:
    """The load of one process."""

    def __init__(
        self,
        groups: Sequence[ClientGroup],
        *,
        seconds: float,
        window: tuple[float, float],
        requests: Callable[[], int],
        report: Callable[[Progress], None],
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._groups = groups
        self._seconds = seconds
        self._window = window
        self._requests = requests
        self._report = report
        self._grace = grace
        self._joins = sorted(participant.joins_at for group in groups for participant in group.participants)
        self._open_steps: set[asyncio.Task[None]] = set()
        """Steps of open loops that are in progress."""
        self._responses = 0
        self._response_time = 0
        self.errors: Counter[str] = Counter()
        """By name of the error."""
        self.steps = 0
        """Number of steps that have ended, also in an error."""

    async def run(self, begin: int) -> SelfCheck:
        """Generate the load from `begin`, by ``time.perf_counter_ns``, until the time is up and all steps have ended.

        Raises Defect if a behaviour has a bug.
        """
        self._begin, self._end = begin, begin + int(self._seconds * SECOND)
        self._defect: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer = PreciseTimer()
        self.self_check = SelfCheck(*(begin + int(moment * SECOND) for moment in self._window))
        loops = [asyncio.create_task(self._timer.until(self._end)), *self._loops()]
        watchers = [
            asyncio.create_task(self.self_check.watch(self._timer)),
            asyncio.create_task(self._report_each_second()),
        ]
        try:
            await self._wait_for_end(loops)
        finally:
            await _cancel({*loops, *watchers, *self._open_steps})
            self._defect.cancel()
            self._timer.close()
        return self.self_check

    def _loops(self) -> Iterator[asyncio.Task[None]]:
        for group in self._groups:
            if group.rate is not None:
                yield asyncio.create_task(self._open_loop(group, group.rate))
                continue
            for participant in group.participants:
                if participant.joins_at < self._seconds:
                    yield asyncio.create_task(self._closed_loop(group, participant))

    async def _wait_for_end(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Wait until all loops and steps have ended, a behaviour has failed, or the grace period is over."""
        waiter = asyncio.create_task(self._wait_for_steps(loops))
        remaining = (self._end - time.perf_counter_ns()) / SECOND + self._grace
        try:
            await asyncio.wait({waiter, self._defect}, timeout=max(0.0, remaining), return_when=asyncio.FIRST_COMPLETED)
            if self._defect.done():
                self._defect.result()
            if waiter.done():
                waiter.result()
        finally:
            await _cancel({waiter})

    async def _wait_for_steps(self, loops: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.gather(*loops)
        if self._open_steps:
            await asyncio.wait(self._open_steps)

    # Closed loops

    async def _closed_loop(self, group: ClientGroup, participant: Participant) -> None:
        think_time, pause = group.think_time, FIRST_PAUSE
        await self._timer.until(self._begin + int(participant.joins_at * SECOND))
        now = time.perf_counter_ns()
        while now < self._end:
            started = now
            error = await self._step(group, participant, started)
            delay = think_time(participant.rng) if think_time else 0.0
            if isinstance(error, TryAgain):
                delay += pause
                pause = min(2 * pause, LONGEST_PAUSE)
            elif error is None:
                pause = FIRST_PAUSE
            now = time.perf_counter_ns()
            if delay:
                await self._timer.until(min(now + int(delay * SECOND), self._end))
            elif now - started < INSTANT_STEP:
                await asyncio.sleep(0)
            else:
                continue
            now = time.perf_counter_ns()

    # Open loops

    async def _open_loop(self, group: ClientGroup, rate: float) -> None:
        joins = [participant.joins_at for participant in group.participants]
        for turn, (moment, active) in enumerate(schedule(joins, rate, group.gaps)):
            intended = self._begin + int(moment * SECOND)
            if intended >= self._end:
                return
            if intended > time.perf_counter_ns():
                await self._timer.until(intended)
            elif turn % STARTS_PER_TURN == 0:
                await asyncio.sleep(0)
            INTENDED.set(intended)  # the step's task starts with a copy of this one's context
            step = asyncio.create_task(self._step_on_time(group, group.participants[turn % active], intended))
            self._open_steps.add(step)
            step.add_done_callback(self._open_steps.discard)

    async def _step_on_time(self, group: ClientGroup, participant: Participant, intended: int) -> None:
        self.self_check.started(intended)
        await self._step(group, participant, intended)

    # Steps

    async def _step(self, group: ClientGroup, participant: Participant, intended: int) -> StafetteError | None:
        """Take one step and return its StafetteError, if any. Any other error is a defect and ends the load."""
        started = time.perf_counter_ns() if group.observe else 0
        try:
            result = await participant.step()
        except StafetteError as error:
            self.errors[type(error).__name__] += 1
            self.steps += 1
            if group.observe:
                group.observe(error, intended, started)
            return error
        except asyncio.CancelledError as error:
            if not _is_cancelled():
                self._fail(group, participant, error)
            self.errors[CANCELLED] += 1
            raise
        except Exception as error:
            self._fail(group, participant, error)
            raise asyncio.CancelledError from error  # ends this loop; `run` ends the others
        self.steps += 1
        self._responses += 1
        self._response_time += time.perf_counter_ns() - intended
        if group.observe:
            group.observe(result, intended, started)
        return None

    def _fail(self, group: ClientGroup, participant: Participant, error: BaseException) -> None:
        if not self._defect.done():
            log.error("the behaviour %s failed", group.behaviour, exc_info=error)
            self._defect.set_exception(defect(group.behaviour, participant.name, error))

    # Progress

    async def _report_each_second(self) -> None:
        for second in itertools.count(1):
            await self._timer.until(self._begin + second * SECOND)
            mean = self._response_time / self._responses / 1e6 if self._responses else None
            self._responses = self._response_time = 0
            active = bisect.bisect_right(self._joins, second)
            self._report(Progress(self._requests(), self.errors.total(), self.steps, mean, active))


def defect(behaviour: str, client: str, error: BaseException) -> Defect:
    """The Defect for an error that a behaviour should have handled."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return Defect(f"the behaviour {behaviour} failed as {client}: {reason}; the worker's log shows where")


def _is_cancelled() -> bool:
    """Whether we cancelled this task; if not, the step awaited a task of its own that was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # or asyncio logs that it was never retrieved
