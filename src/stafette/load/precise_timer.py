"""A timer that is accurate to some ten microseconds.

The timers of uvloop, as of asyncio, count in milliseconds: a load of a thousand steps per second would start in bursts,
half a millisecond late on average, and every response time would be that much too long. Linux has a timer that is a
file, which the event loop can watch like any other. Other systems use the loop's own timers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import os
import sys
import time

SECOND = 1_000_000_000
"""In nanoseconds, the unit of ``time.perf_counter_ns``, in which all moments here are."""

# From <sys/timerfd.h>; Python has these from 3.13 on.
_MONOTONIC, _NONBLOCKING, _CLOSE_ON_EXEC, _ABSOLUTE = 1, os.O_NONBLOCK, getattr(os, "O_CLOEXEC", 0), 1
_Setting = ctypes.c_long * 4  # seconds and nanoseconds of the interval, which we do not use, and of the moment


class PreciseTimer:
    """Wakes any number of tasks, each at its moment."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0
        """Number of waits so far. It orders waits for the same moment, so that futures are never compared."""
        self._timer = _KernelTimer.open()
        self._handle: asyncio.TimerHandle | None = None
        if self._timer is not None:
            self._loop.add_reader(self._timer.file, self._on_time)

    async def until(self, moment: int) -> None:
        """Sleep until a moment; return at once if it is past."""
        if moment <= time.perf_counter_ns():
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._count += 1
        heapq.heappush(self._waiting, (moment, self._count, future))
        if self._waiting[0][2] is future:
            self._set(moment)
        await future

    def close(self) -> None:
        """Stop the timer; waits that remain never end."""
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            self._loop.remove_reader(self._timer.file)
            self._timer.close()
            self._timer = None

    def _set(self, moment: int) -> None:
        if self._timer is not None:
            self._timer.set(moment)
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0.0, (moment - time.perf_counter_ns()) / SECOND), self._on_time)

    def _on_time(self) -> None:
        if self._timer is not None:
            self._timer.read()
        now = time.perf_counter_ns()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():  # it may have been cancelled
                future.set_result(None)
        if self._waiting:
            self._set(self._waiting[0][0])


class _KernelTimer:
    """A timer of the kernel, on the clock of ``time.perf_counter_ns``."""

    def __init__(self, library: ctypes.CDLL, file: int) -> None:
        self._set_time = library.timerfd_settime
        self._setting = _Setting(0, 0, 0, 0)
        self._at = ctypes.byref(self._setting)
        self.file = file

    @classmethod
    def open(cls) -> _KernelTimer | None:
        """Create one; None on systems without timerfd."""
        if sys.platform != "linux":
            return None
        library = ctypes.CDLL(None)
        with contextlib.suppress(AttributeError):
            file = library.timerfd_create(_MONOTONIC, _NONBLOCKING | _CLOSE_ON_EXEC)
            if file >= 0:
                return cls(library, file)
        return None

    def set(self, moment: int) -> None:
        self._setting[2:] = [*divmod(moment, SECOND)]
        self._set_time(self.file, _ABSOLUTE, self._at, None)

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set again since then
            os.read(self.file, 8)

    def close(self) -> None:
        os.close(self.file)
