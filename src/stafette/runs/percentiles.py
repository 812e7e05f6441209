"""The one rule for percentiles: nearest rank.

Of n values in order, the p-th percentile is the one at rank ceil(p·n/100), from 1: always a value that was measured.

Shares are given in thousandths, so that ranks are whole numbers: in floating point, 0.55 · 100 is more than 55.
Percentiles of response times are in whole microseconds, rounded down. The pipeline counts by the microsecond, and
rounding down keeps the order, so the percentile of rounded values is the rounded percentile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Count = TypeVar("Count", int, "NDArray[np.int64]")
Value = TypeVar("Value", int, float)

MICROSECOND = 1000
"""In nanoseconds."""


def rank(count: Count, thousandths: Count) -> Count:
    """The rank of a percentile among `count` values in order, from 1; also for arrays. `thousandths` is at least 1."""
    return -(-count * thousandths // 1000)


def percentile(ordered: Sequence[Value], thousandths: int) -> Value:
    """A percentile of sorted values; there must be at least one."""
    return ordered[rank(len(ordered), thousandths) - 1]


def percentiles(values: NDArray[Any], thousandths: Sequence[int]) -> list[float]:
    """Percentiles of at least one value; reorders `values`, which is faster than sorting them."""
    positions = [rank(len(values), share) - 1 for share in thousandths]
    values.partition(sorted(set(positions)))
    return [float(values[position]) for position in positions]


def milliseconds(nanoseconds: float) -> float:
    """A percentile in milliseconds, of whole microseconds."""
    return nanoseconds // MICROSECOND / 1000
