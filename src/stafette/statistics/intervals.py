"""Confidence intervals from a few repetitions.

The values are one number per run, or batch means of one long run: they may be taken as independent. Raw response times
are not. The intervals from (mean, deviation, count) exist to repeat what others have published, and to show how much
narrower an interval is that assumes independence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import scipy  # loads its submodules lazily
from numpy.typing import NDArray

from stafette.errors import InvalidRequest

LEVEL = 0.95

Values: TypeAlias = Sequence[float] | NDArray[np.float64]


class Estimate(msgspec.Struct, frozen=True):
    """An estimate with its confidence interval; without bounds if there are too few values."""

    value: float
    low: float | None = None
    high: float | None = None


class BatchEstimate(msgspec.Struct, frozen=True):
    """The mean of one long run, and whether its batches were long enough to be taken as independent."""

    estimate: Estimate
    batches: int
    size: int
    correlation: float
    independent: bool


def interval(values: Values, level: float = LEVEL) -> tuple[float, float | None]:
    """The mean and half the width of its confidence interval by Student's t, with n - 1 degrees of freedom.

    One value has no interval: the half width is None.
    """
    if not len(values):
        raise InvalidRequest("there is no value to take the mean of; let at least one run end")
    mean, square = _mean_and_error(values)
    return mean, None if square is None else student_quantile(level, len(values) - 1) * math.sqrt(square)


def mean_interval(values: Values, level: float = LEVEL) -> Estimate:
    """The same as `interval`, as an estimate with bounds."""
    mean, half_width = interval(values, level)
    return Estimate(mean) if half_width is None else Estimate(mean, mean - half_width, mean + half_width)


def mean_interval_from(mean: float, stddev: float, count: int, level: float = LEVEL) -> Estimate:
    """Student's interval of a mean, from the deviation and the count."""
    _check_summary(stddev, count)
    quantile = student_quantile(level, max(count - 1, 1))
    if count == 1:
        return Estimate(mean)
    half_width = quantile * stddev / math.sqrt(count)
    return Estimate(mean, mean - half_width, mean + half_width)


def deviation_interval(values: Values, level: float = LEVEL) -> Estimate:
    """The standard deviation of a sample (n - 1 in the divisor) with its χ² interval; needs two or more values."""
    if len(values) < 2:
        raise InvalidRequest("a standard deviation needs at least 2 values; let another run end")
    return deviation_interval_from(float(np.std(values, ddof=1)), len(values), level)


def deviation_interval_from(stddev: float, count: int, level: float = LEVEL) -> Estimate:
    """The χ² interval of a standard deviation: s·√((n-1)/χ²) with the upper and the lower quantile of n - 1 degrees.

    Unlike Student's it assumes normal values, however many there are.
    """
    _check_summary(stddev, count)
    _check_level(level)
    if count == 1:
        return Estimate(stddev)
    freedom = count - 1
    upper, lower = (float(scipy.special.chdtri(freedom, tail)) for tail in ((1 - level) / 2, (1 + level) / 2))
    return Estimate(stddev, stddev * math.sqrt(freedom / upper), stddev * math.sqrt(freedom / lower))


def precise_enough(values: Values, within: float, level: float = LEVEL, least: int = 2) -> bool:
    """Whether repetitions may stop: at least `least`, and half the interval's width within a share of the mean.

    The interval is Student's t. Checking after each run and stopping at the first success makes the interval a little
    too narrow, more so with few runs; `least` prevents a stop after two runs that are similar by chance.
    """
    if len(values) < max(least, 2):
        return False
    mean, half_width = interval(values, level)
    return half_width is not None and half_width <= within * abs(mean)


def ratio_interval(a: Values, b: Values, level: float = LEVEL) -> Estimate | None:
    """The ratio of B's mean over A's with its confidence interval: Welch's t on the logarithms.

    So the means are geometric. With logarithms a ratio is a difference, swapping A and B inverts the interval, and no
    bound is below zero. The degrees of freedom are Welch and Satterthwaite's. With a single value on either side the
    ratio has no interval; with a value that is not positive, or no value, the result is None.
    """
    if not len(a) or not len(b) or min(*a, *b) <= 0:
        return None
    logarithms = difference_interval([math.log(value) for value in a], [math.log(value) for value in b], level)
    low, high = (None if bound is None else exponential(bound) for bound in (logarithms.low, logarithms.high))
    return Estimate(exponential(logarithms.value), low, high)


def difference_interval(a: Values, b: Values, level: float = LEVEL) -> Estimate:
    """B's mean minus A's with its confidence interval: Welch's t, so the variances may differ."""
    if not len(a) or not len(b):
        raise InvalidRequest("there is nothing to compare on one side; let at least one run of each end")
    (mean_a, square_a), (mean_b, square_b) = _mean_and_error(a), _mean_and_error(b)
    difference = mean_b - mean_a
    if square_a is None or square_b is None:
        return Estimate(difference)
    square = square_a + square_b
    if square == 0:  # no variance on either side, so no degrees of freedom
        return Estimate(difference, difference, difference)
    share_a, share_b = square_a / square, square_b / square
    freedom = 1 / (share_a**2 / (len(a) - 1) + share_b**2 / (len(b) - 1))
    half_width = student_quantile(level, freedom) * math.sqrt(square)
    return Estimate(difference, difference - half_width, difference + half_width)


def batch_means(values: Values, batches: int = 20) -> list[float]:
    """The means of `batches` batches of equal size, in order: the method of batch means, for one long run.

    Neighbouring values of a run are correlated; means of large batches hardly are, so `interval` may be used for them.
    Values that do not fill the batches are dropped at the start, where the run is least settled.
    """
    if batches < 2:
        raise InvalidRequest("batch means need at least 2 batches")
    size = len(values) // batches
    if not size:
        raise InvalidRequest(f"{len(values)} values do not fill {batches} batches; ask for fewer, or run for longer")
    batched_values = np.asarray(values, dtype=np.float64)[len(values) - size * batches :]
    means: list[float] = batched_values.reshape(batches, size).mean(axis=1).tolist()
    return means


def batch_interval(values: Values, batches: int = 20, level: float = LEVEL) -> BatchEstimate:
    """The mean of one long run with Student's interval over its batch means.

    The batches count as independent unless neighbours are significantly correlated at 95 % (one-sided: only positive
    correlation makes the interval too narrow). If they are not independent, run for longer.
    """
    means = batch_means(values, batches)
    correlation = autocorrelation(means, 1)
    spread = math.sqrt((batches - 2) / (batches**2 - 1))  # von Neumann
    by_chance = -1 / batches + float(scipy.special.ndtri(0.95)) * spread
    independent = correlation <= by_chance
    return BatchEstimate(mean_interval(means, level), batches, len(values) // batches, correlation, independent)


def autocorrelation(values: Values, lag: int) -> float:
    """The correlation of values at this lag, from -1 to 1; 0 if all values are the same."""
    centred = np.asarray(values, dtype=np.float64) - np.mean(values)
    square = float(centred @ centred)
    return float(centred[lag:] @ centred[:-lag]) / square if square > 0 else 0.0


def student_quantile(level: float, freedom: float) -> float:
    """How many standard errors an interval reaches to each side."""
    _check_level(level)
    return float(scipy.special.stdtrit(freedom, (1 + level) / 2))


def exponential(value: float) -> float:
    """The inverse of the logarithm; infinite on overflow."""
    try:
        return math.exp(value)
    except OverflowError:  # two runs that differ much, at a high level
        return math.inf


def _mean_and_error(values: Values) -> tuple[float, float | None]:
    """The mean and the square of its standard error; None for that of a single value."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.mean()), float(numbers.var(ddof=1)) / len(numbers) if len(numbers) > 1 else None


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidRequest(f"a confidence level of {level:g} is not between 0 and 1; 0.95 is usual")


def _check_summary(stddev: float, count: int) -> None:
    if count < 1:
        raise InvalidRequest(f"a count of {count} is not positive; give the number of values")
    if not stddev >= 0:
        raise InvalidRequest(f"a standard deviation of {stddev:g} is not valid; give 0 or more")
