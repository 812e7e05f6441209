"""Series as runs make them, from a seed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def fading(chance: np.random.Generator, count: int, correlation: float) -> NDArray[np.float64]:
    """Neighbours are alike, ever less with their distance; mean 0, deviation 1."""
    shocks = chance.normal(0, math.sqrt(1 - correlation**2), count)
    course = np.empty(count)
    course[0] = chance.normal()
    for index in range(1, count):
        course[index] = correlation * course[index - 1] + shocks[index]
    return course
