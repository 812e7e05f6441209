"""The times of a run: its load, the measured window, and the windows of equal length that divide the load."""

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
        """The number of windows, which cover the load."""
        return -(-(self.load.end_ns - self.load.start_ns) // self.window_ns)

    def starts(self) -> NDArray[np.int64]:
        """The start of each window, in nanoseconds since the start of the load."""
        return np.arange(self.windows, dtype=np.int64) * self.window_ns

    def lengths(self) -> NDArray[np.int64]:
        """The length of each window in nanoseconds; the last may be shorter."""
        starts = self.starts()
        return np.minimum(starts + self.window_ns, self.load.end_ns - self.load.start_ns) - starts

    def inside(self) -> NDArray[np.bool_]:
        """Whether all of each window is measured."""
        begin = self.starts() + self.load.start_ns
        mask: NDArray[np.bool_] = (begin >= self.measured.start_ns) & (begin + self.lengths() <= self.measured.end_ns)
        return mask

    def measured_lengths(self) -> NDArray[np.int64]:
        """The measured part of each window, in nanoseconds."""
        begin = self.starts() + self.load.start_ns
        end = np.minimum(begin + self.lengths(), self.measured.end_ns)
        lengths: NDArray[np.int64] = np.maximum(end - np.maximum(begin, self.measured.start_ns), 0)
        return lengths

    def since_load_s(self, moment_ns: int) -> float:
        """Seconds from the start of the load to a moment."""
        return (moment_ns - self.load.start_ns) / SECOND
