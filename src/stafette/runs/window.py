"""A window of time: the load of a run, or the measured part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stafette.errors import InvalidRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SECOND = 1_000_000_000
"""In nanoseconds."""


class Window(msgspec.Struct, frozen=True):
    """A window of time, in nanoseconds since the epoch; its end is exclusive."""

    start_ns: int
    end_ns: int

    def __post_init__(self) -> None:
        if self.end_ns <= self.start_ns:
            raise InvalidRequest("a window must end after it starts; give the run a longer duration")

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / SECOND

    def holds(self, moments: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which moments are in it."""
        return (moments >= self.start_ns) & (moments < self.end_ns)
