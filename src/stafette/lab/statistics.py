"""What a handful of repetitions allow us to say.

The values are one figure per run, or batch means of one long run: numbers that may be taken as independent. Raw
response times are not, and have no place here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.special import stdtrit

from stafette.errors import InvalidRequest

LEVEL = 0.95


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its confidence interval; without bounds when there are too few values for one."""

    value: float
    low: float | None = None
    high: float | None = None


def interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float | None]:
    """The mean and half the width of its confidence interval by Student's t, with n - 1 degrees of freedom.

    One value has no interval: the half width is None.
    """
    if not values:
        raise InvalidRequest("there is no value to take the mean of; let at least one run end")
    mean, square = _mean_and_error(values)
    return mean, None if square is None else _quantile(level, len(values) - 1) * math.sqrt(square)


def precise_enough(values: Sequence[float], within: float, level: float = LEVEL, least: int = 2) -> bool:
    """Whether repetitions may stop: at least `least`, and half the interval's width within a share of the mean.

    The interval is Student's t. Asking after each run and stopping at the first yes makes the interval a little too
    narrow, more so the fewer runs there are; `least` guards against stopping at two that are alike by chance.
    """
    if len(values) < max(least, 2):
        return False
    mean, half_width = interval(values, level)
    return half_width is not None and half_width <= within * abs(mean)


def ratio_interval(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Estimate | None:
    """The ratio of B's mean over A's with its confidence interval: Welch's t on the logarithms.

    The means are therefore geometric. On logarithms a ratio is a difference, swapping A and B turns the interval over,
    and no bound is below zero. The degrees of freedom are Welch and Satterthwaite's. With a single value on either
    side there is a ratio without an interval; with a value that is not positive, or none at all, not even that (None).
    """
    if not a or not b or min(*a, *b) <= 0:
        return None
    logarithms = difference_interval([math.log(value) for value in a], [math.log(value) for value in b], level)
    low, high = (None if bound is None else _exponential(bound) for bound in (logarithms.low, logarithms.high))
    return Estimate(_exponential(logarithms.value), low, high)


def difference_interval(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Estimate:
    """B's mean less A's with its confidence interval: Welch's t, the variances need not be alike."""
    (mean_a, square_a), (mean_b, square_b) = _mean_and_error(a), _mean_and_error(b)
    difference = mean_b - mean_a
    if square_a is None or square_b is None:
        return Estimate(difference)
    square = square_a + square_b
    if square == 0:  # all alike on both sides: there are no degrees of freedom to speak of
        return Estimate(difference, difference, difference)
    share_a, share_b = square_a / square, square_b / square
    freedom = 1 / (share_a**2 / (len(a) - 1) + share_b**2 / (len(b) - 1))
    half_width = _quantile(level, freedom) * math.sqrt(square)
    return Estimate(difference, difference - half_width, difference + half_width)


def batch_means(values: Sequence[float], batches: int = 20) -> list[float]:
    """The means of so many stretches of equal length, in order: the method of batch means, for one long run.

    Neighbouring values of a run depend on each other; means of long stretches hardly do, so they may be given to
    `interval`. What does not fill the batches is left out at the start, where the run is least settled.
    """
    if batches < 2:
        raise InvalidRequest("batch means want at least 2 batches")
    size = len(values) // batches
    if not size:
        raise InvalidRequest(f"{len(values)} values do not fill {batches} batches; ask for fewer, or run for longer")
    kept = np.asarray(values, dtype=np.float64)[len(values) - size * batches :]
    means: list[float] = kept.reshape(batches, size).mean(axis=1).tolist()
    return means


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the square of its standard error; None for that of a single value."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.mean()), float(numbers.var(ddof=1)) / len(numbers) if len(numbers) > 1 else None


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:  # two runs that differ much, at a high level: the bound is beyond all numbers
        return math.inf


def _quantile(level: float, freedom: float) -> float:
    """How many standard errors an interval reaches to each side."""
    if not 0 < level < 1:
        raise InvalidRequest(f"a level of confidence of {level:g} is not between 0 and 1; 0.95 is usual")
    return float(stdtrit(freedom, (1 + level) / 2))
