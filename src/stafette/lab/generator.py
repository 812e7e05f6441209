"""Runs the behaviours of one process's clients, in closed and in open loops.

A closed loop starts a client's next step when the last has ended and the client has thought. An open loop starts steps
when its schedule says so, whether earlier ones have ended or not. A generator that falls behind starts what is due as
fast as it can, and every step keeps its intended start: response times count from there, so that neither a stalled
system nor a stalled generator goes unseen.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from stafette.client.tracing import CANCELLED, INTENDED
from stafette.errors import StafetteError, TryAgain
from stafette.lab.alarm import SECOND, Alarm
from stafette.lab.behaviours.base import Behaviour
from stafette.lab.distribution import Distribution
from stafette.lab.health import Health
from stafette.lab.job import Arrivals, Progress

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 15.0
"""How long steps that are under way when the time is up may take."""

CANCEL_SECONDS = 1.0
"""How long a step may take to notice that it was cancelled."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
"""Seconds a client of a closed loop waits after an error that may pass: doubling, so that an outage does not spin."""

STARTED_AT_ONCE = 100
"""How many due steps of an open loop are started before others on the event loop have their turn."""

WITHOUT_REQUEST = SECOND // 50_000
"""A step that is faster than this waited for nothing, and the event loop has had no turn meanwhile."""


class Defect(StafetteError):
    """A behaviour failed in a way that is its own fault."""


@dataclass(frozen=True)
class Member:
    """One client at work."""

    behaviour: Behaviour
    joins_at: float = 0.0
    """Seconds after the start of the load."""


@dataclass(frozen=True)
class Party:
    """The clients of one group in this process, by number."""

    behaviour: str
    members: Sequence[Member]
    think_time: Distribution
    rate: float | None = None
    """Steps per second of each active client, in an open loop."""
    gaps: Iterator[float] = field(default_factory=lambda: itertools.repeat(1.0))
    """How far steps of an open loop are apart, on average 1."""


def gaps(arrivals: Arrivals, chance: random.Random, phase: float = 0.0) -> Iterator[float]:
    """Distances between starts, on average 1: memoryless, or all the same after a first one of `phase`."""
    if arrivals == "constant":
        yield phase
        yield from itertools.repeat(1.0)
    while True:
        yield chance.expovariate(1.0)


def schedule(joins: Sequence[float], rate: float, distances: Iterator[float]) -> Iterator[tuple[float, int]]:
    """When steps start, in seconds, without end, and how many clients are active then; each adds `rate` to the pace."""
    now, distance = 0.0, next(distances)
    for active, until in enumerate((*joins, math.inf)):
        if pace := active * rate:
            while now + distance / pace < until:
                now += distance / pace
                yield now, active
                distance = next(distances)
            distance -= (until - now) * pace  # what is left of it is gone at the next pace
        now = until


class Generator:
    """The load of one process."""

    def __init__(
        self,
        parties: Sequence[Party],
        *,
        seconds: float,
        window: tuple[float, float],
        requests: Callable[[], int],
        report: Callable[[Progress], None],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._parties = parties
        self._seconds = seconds
        self._window = window
        self._requests = requests
        self._report = report
        self._patience = patience
        self._joins = sorted(member.joins_at for party in parties for member in party.members)
        self._under_way: set[asyncio.Task[None]] = set()
        """Steps of open loops."""
        self._responses = 0
        self._response_time = 0
        self.errors: Counter[str] = Counter()
        """By name."""
        self.steps = 0
        """All that have ended, also in an error."""

    async def run(self, begin: int) -> Health:
        """Put the load on from a moment of ``time.perf_counter_ns`` on, until the time is up and all steps have ended.

        Raises a Defect when a behaviour has one.
        """
        self._begin, self._end = begin, begin + int(self._seconds * SECOND)
        self._defect: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._alarm = Alarm()
        self.health = Health(*(begin + int(moment * SECOND) for moment in self._window))
        loops = [asyncio.create_task(self._alarm.until(self._end)), *self._loops()]
        watchers = [
            asyncio.create_task(self.health.watch(self._alarm)),
            asyncio.create_task(self._report_each_second()),
        ]
        try:
            await self._finished(loops)
        finally:
            await _cancel({*loops, *watchers, *self._under_way})
            self._defect.cancel()
            self._alarm.close()
        return self.health

    def _loops(self) -> Iterator[asyncio.Task[None]]:
        for party in self._parties:
            if party.rate is not None:
                yield asyncio.create_task(self._open_loop(party, party.rate))
                continue
            for member in party.members:
                if member.joins_at < self._seconds:
                    yield asyncio.create_task(self._closed_loop(party, member))

    async def _finished(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Wait until all has ended, something is wrong, or patience is over."""
        over = asyncio.create_task(self._all_ended(loops))
        left = (self._end - time.perf_counter_ns()) / SECOND + self._patience
        try:
            await asyncio.wait({over, self._defect}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if self._defect.done():
                self._defect.result()
            if over.done():
                over.result()
        finally:
            await _cancel({over})

    async def _all_ended(self, loops: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.gather(*loops)
        if self._under_way:
            await asyncio.wait(self._under_way)

    # Closed loops

    async def _closed_loop(self, party: Party, member: Member) -> None:
        chance, pause = member.behaviour.scene.chance, FIRST_PAUSE
        await self._alarm.until(self._begin + int(member.joins_at * SECOND))
        now = time.perf_counter_ns()
        while now < self._end:
            started = now
            error = await self._step(party, member, started)
            delay = party.think_time.draw(chance)
            if isinstance(error, TryAgain):
                delay += pause
                pause = min(2 * pause, LONGEST_PAUSE)
            elif error is None:
                pause = FIRST_PAUSE
            now = time.perf_counter_ns()
            if delay:
                await self._alarm.until(min(now + int(delay * SECOND), self._end))
            elif now - started < WITHOUT_REQUEST:
                await asyncio.sleep(0)
            else:
                continue
            now = time.perf_counter_ns()

    # Open loops

    async def _open_loop(self, party: Party, rate: float) -> None:
        joins = [member.joins_at for member in party.members]
        for turn, (moment, active) in enumerate(schedule(joins, rate, party.gaps)):
            intended = self._begin + int(moment * SECOND)
            if intended >= self._end:
                return
            if intended > time.perf_counter_ns():
                await self._alarm.until(intended)
            elif turn % STARTED_AT_ONCE == 0:
                await asyncio.sleep(0)
            INTENDED.set(intended)  # the step's task starts with a copy of this one's context
            step = asyncio.create_task(self._step_on_time(party, party.members[turn % active], intended))
            self._under_way.add(step)
            step.add_done_callback(self._under_way.discard)

    async def _step_on_time(self, party: Party, member: Member, intended: int) -> None:
        self.health.started(intended)
        await self._step(party, member, intended)

    # Steps

    async def _step(self, party: Party, member: Member, intended: int) -> StafetteError | None:
        """One step; returns the error it ended in. One that is not ours is the behaviour's and ends the run."""
        try:
            await member.behaviour.step()
        except StafetteError as error:
            self.errors[type(error).__name__] += 1
            self.steps += 1
            return error
        except asyncio.CancelledError as error:
            if not _is_cancelled():
                self._fail(party, member, error)
            self.errors[CANCELLED] += 1
            raise
        except Exception as error:
            self._fail(party, member, error)
            raise asyncio.CancelledError from error  # ends this loop; the run ends the others
        self.steps += 1
        self._responses += 1
        self._response_time += time.perf_counter_ns() - intended
        return None

    def _fail(self, party: Party, member: Member, error: BaseException) -> None:
        if not self._defect.done():
            log.error("the behaviour %s failed", party.behaviour, exc_info=error)
            self._defect.set_exception(defect(party.behaviour, member.behaviour.scene.name, error))

    # Progress

    async def _report_each_second(self) -> None:
        for second in itertools.count(1):
            await self._alarm.until(self._begin + second * SECOND)
            mean = self._response_time / self._responses / 1e6 if self._responses else None
            self._responses = self._response_time = 0
            active = bisect.bisect_right(self._joins, second)
            self._report(Progress(self._requests(), self.errors.total(), self.steps, mean, active))


def defect(behaviour: str, client: str, error: BaseException) -> Defect:
    """The sentence about an error that a behaviour should not have let out."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return Defect(f"the behaviour {behaviour} failed as {client}: {what}; the worker's log shows where")


def _is_cancelled() -> bool:
    """Whether it is us who cancelled this task; else the step lets out what some task of its own ended in."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # has been seen; nobody else asks
