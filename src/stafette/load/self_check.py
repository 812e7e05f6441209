"""How well the load generator itself does: a busy generator measures itself instead of the system."""

from __future__ import annotations

import random
import time
from pathlib import Path

from stafette.load.precise_timer import SECOND, PreciseTimer
from stafette.runs.percentiles import percentile
from stafette.runs.records import Spread

SCHEDULER = Path("/proc/thread-self/schedstat")
"""Linux tells here for how many nanoseconds this thread ran, and for how many it waited for a core."""

LAG_EVERY = SECOND // 20
RETAINED_SAMPLES = 10_000
"""Enough for a 99th percentile: a hundred of them lie above it."""


class Samples:
    """Times, in nanoseconds; of many only some, drawn fairly, are retained for the percentile."""

    def __init__(self, most: int = RETAINED_SAMPLES) -> None:
        self._most_retained = most
        self._retained: list[int] = []
        self._count = 0
        self._total = 0
        self._max = 0
        self._random = random.Random(0)  # noqa: S311

    def add(self, value: int) -> None:
        """Take one in."""
        self._count += 1
        self._total += value
        self._max = max(self._max, value)
        if len(self._retained) < self._most_retained:
            self._retained.append(value)
        elif (position := int(self._random.random() * self._count)) < self._most_retained:
            self._retained[position] = value

    def spread(self) -> Spread:
        """The figures, in milliseconds."""
        if not self._count:
            return Spread()
        p99 = percentile(sorted(self._retained), 990)
        return Spread(self._total / self._count / 1e6, p99 / 1e6, self._max / 1e6)


class SelfCheck:
    """Lag, lateness and processor time within the measured window."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._late = Samples()
        self._lag = Samples()
        self._begun: tuple[int, int, int] | None = None
        self._shares: tuple[float, float] | None = None

    def started(self, intended: int) -> None:
        """A step of an open loop starts now."""
        if self._start <= intended < self._end:
            self._late.add(max(0, time.perf_counter_ns() - intended))

    async def watch(self, timer: PreciseTimer) -> None:
        """Take samples from the start of the window to its end."""
        await timer.until(self._start)
        self._begun = time.perf_counter_ns(), time.process_time_ns(), _waited_for_a_core()
        due = time.perf_counter_ns() + LAG_EVERY
        while due < self._end:
            await timer.until(due)
            now = time.perf_counter_ns()
            self._lag.add(now - due)
            due = now + LAG_EVERY
        await timer.until(self._end)
        self._shares = self._shares_so_far()

    def _shares_so_far(self) -> tuple[float, float]:
        """Of the time: in which we ran, and in which we would have but had no core."""
        if self._begun is None:
            return 0.0, 0.0
        wall, processor, waited = self._begun
        passed = max(1, time.perf_counter_ns() - wall)
        return (time.process_time_ns() - processor) / passed, (_waited_for_a_core() - waited) / passed

    @property
    def cpu_share(self) -> float:
        """Of one core."""
        return (self._shares or self._shares_so_far())[0]

    @property
    def starved_share(self) -> float:
        """Of the time, in which we had something to do but no core to do it on."""
        return (self._shares or self._shares_so_far())[1]

    @property
    def late(self) -> Spread:
        """How far behind their intended start the steps of open loops started."""
        return self._late.spread()

    @property
    def lag(self) -> Spread:
        """How late a timer was."""
        return self._lag.spread()


def _waited_for_a_core() -> int:
    try:
        return int(SCHEDULER.read_text().split()[1])
    except (OSError, ValueError, IndexError):  # not on this system
        return 0
