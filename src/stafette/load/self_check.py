"""Whether the load generator keeps up: a busy generator measures itself instead of the system."""

from __future__ import annotations

import random
import time
from pathlib import Path

from stafette.load.precise_timer import SECOND, PreciseTimer
from stafette.runs.percentiles import percentile
from stafette.runs.records import Spread

SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""On Linux: the nanoseconds that this thread ran, and those that it waited for a core."""

LAG_INTERVAL = SECOND // 20
RETAINED_SAMPLES = 10_000
"""Enough for a 99th percentile: a hundred samples lie above it."""


class Reservoir:
    """A reservoir sample of times in nanoseconds, for their mean, maximum and 99th percentile."""

    def __init__(self, size: int = RETAINED_SAMPLES) -> None:
        self._size = size
        self._retained: list[int] = []
        self._count = 0
        self._total = 0
        self._max = 0
        self._rng = random.Random(0)  # noqa: S311

    def add(self, value: int) -> None:
        """Add a time."""
        self._count += 1
        self._total += value
        self._max = max(self._max, value)
        if len(self._retained) < self._size:
            self._retained.append(value)
        elif (position := int(self._rng.random() * self._count)) < self._size:
            self._retained[position] = value

    def spread(self) -> Spread:
        """Mean, 99th percentile and maximum, in milliseconds."""
        if not self._count:
            return Spread()
        p99 = percentile(sorted(self._retained), 990)
        return Spread(self._total / self._count / 1e6, p99 / 1e6, self._max / 1e6)


class SelfCheck:
    """Lag, lateness and processor time within the measured window."""

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._late = Reservoir()
        self._lag = Reservoir()
        self._clocks_at_start: tuple[int, int, int] | None = None
        self._shares: tuple[float, float] | None = None

    def started(self, intended: int) -> None:
        """A step of an open loop starts now."""
        if self._start <= intended < self._end:
            self._late.add(max(0, time.perf_counter_ns() - intended))

    async def watch(self, timer: PreciseTimer) -> None:
        """Take samples from the start of the window to its end."""
        await timer.until(self._start)
        self._clocks_at_start = time.perf_counter_ns(), time.process_time_ns(), _core_wait_ns()
        due = time.perf_counter_ns() + LAG_INTERVAL
        while due < self._end:
            await timer.until(due)
            now = time.perf_counter_ns()
            self._lag.add(now - due)
            due = now + LAG_INTERVAL
        await timer.until(self._end)
        self._shares = self._shares_so_far()

    def _shares_so_far(self) -> tuple[float, float]:
        """The shares of the elapsed time in which we ran, and in which we waited for a core."""
        if self._clocks_at_start is None:
            return 0.0, 0.0
        wall, processor, waited = self._clocks_at_start
        elapsed = max(1, time.perf_counter_ns() - wall)
        return (time.process_time_ns() - processor) / elapsed, (_core_wait_ns() - waited) / elapsed

    @property
    def cpu_share(self) -> float:
        """Processor time, as a share of one core."""
        return (self._shares or self._shares_so_far())[0]

    @property
    def starved_share(self) -> float:
        """The share of the time in which this thread was ready to run but had no core."""
        return (self._shares or self._shares_so_far())[1]

    @property
    def late(self) -> Spread:
        """How far behind their intended start the steps of open loops started."""
        return self._late.spread()

    @property
    def lag(self) -> Spread:
        """How late the timer of `watch` was."""
        return self._lag.spread()


def _core_wait_ns() -> int:
    try:
        return int(SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):  # not on this system
        return 0
