"""When a run was: its load, what is measured of it, and the windows of equal length that the load is cut into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stafette.runs.window import SECOND, Window


@dataclass(frozen=True)
class RunTimes:
    """The times of one run."""

    run: str
    load: Window
    measured: Window
    window_ns: int = SECOND

    @property
    def windows(self) -> int:
        """How many windows begin before the load ends."""
        return -(-(self.load.end_ns - self.load.start_ns) // self.window_ns)

    def starts(self) -> NDArray[np.int64]:
        """When each window begins, in nanoseconds since the load began."""
        return np.arange(self.windows, dtype=np.int64) * self.window_ns

    def lengths(self) -> NDArray[np.int64]:
        """How long each is; the last may be cut short."""
        starts = self.starts()
        return np.minimum(starts + self.window_ns, self.load.end_ns - self.load.start_ns) - starts

    def inside(self) -> NDArray[np.bool_]:
        """Which windows lie in the measured one as a whole."""
        begin = self.starts() + self.load.start_ns
        whole: NDArray[np.bool_] = (begin >= self.measured.start_ns) & (begin + self.lengths() <= self.measured.end_ns)
        return whole

    def measured_lengths(self) -> NDArray[np.int64]:
        """How much of each window is measured."""
        begin = self.starts() + self.load.start_ns
        end = np.minimum(begin + self.lengths(), self.measured.end_ns)
        lengths: NDArray[np.int64] = np.maximum(end - np.maximum(begin, self.measured.start_ns), 0)
        return lengths

    def since_load_s(self, moment_ns: int) -> float:
        """Seconds from the start of the load to a moment."""
        return (moment_ns - self.load.start_ns) / SECOND
