"""Mean and deviation of response times, from whole numbers.

Count, sum and sum of squares are exact, and each result is rounded from them. So laboratory and pipeline agree to the
last digit, in whatever order and in however many parts they add up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MILLISECOND = 1_000_000

_LOW_BITS = 25
_LIMIT = 1 << 2 * _LOW_BITS  # nanoseconds, 13 days; below it both halves of a value have at most 25 bits
_CHUNK = 1 << 12  # a product of halves is at most 2**50, so the sum of 2**12 of them fits in 63 bits


def mean_ms(count: int, total_ns: int) -> float:
    """The mean in milliseconds; `count` is at least 1."""
    return total_ns / (count * _MILLISECOND)


def stddev_ms(count: int, total_ns: int, squares: int) -> float | None:
    """The standard deviation of the sample (n - 1 in the divisor) in milliseconds; None for fewer than two values."""
    if count < 2:
        return None
    return math.sqrt((count * squares - total_ns**2) / (count * (count - 1))) / _MILLISECOND


def sums(values: NDArray[np.int64]) -> tuple[int, int]:
    """The sum of nanoseconds and the sum of their squares, exactly."""
    total = squares = 0
    for start in range(0, len(values), _CHUNK):
        chunk_total, chunk_squares = _chunk_sums(values[start : start + _CHUNK])
        total += chunk_total
        squares += chunk_squares
    return total, squares


def _chunk_sums(chunk: NDArray[np.int64]) -> tuple[int, int]:
    """Squares do not fit in 64 bits, so add up products of the upper and lower halves of the values."""
    if chunk.max() >= _LIMIT or chunk.min() < -_LIMIT:
        numbers = chunk.tolist()
        return sum(numbers), sum(number * number for number in numbers)
    high, low = chunk >> _LOW_BITS, chunk & ((1 << _LOW_BITS) - 1)
    products = (int(high @ high) << 2 * _LOW_BITS) + (int(high @ low) << _LOW_BITS + 1) + int(low @ low)
    return int(chunk.sum()), products
