"""Confidence intervals from a few repetitions.

The values are one number per run, or batches of one long run: they may be taken as independent. Raw response times
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

BATCH_NUMBERS = (20, 15, 10, 8, 6, 5)
"""To choose from: 20 give a narrow interval, and fewer than 5 one that says little."""
BATCH_WINDOWS = 30
"""The fewest windows in a batch if there are more than `SURE_BATCHES`. Simulated with a correlation of 0.7 between
neighbouring windows: intervals at 95 % from 10 batches of 30 windows hold the true value in 94 %, from 20 batches of
6 windows in 89 %. The test for correlation is too weak to see that these are too short."""
SURE_BATCHES = 6
"""The number to start from if there are too few windows for more. By the same simulation, intervals from 60 windows
hold the true value in 92 % with a correlation of 0.7, and in 94 % with 0.5; those from 30 windows in 88 % and 93 %."""
LEAST_WINDOWS = 10
"""So that each of 5 batches has two."""
ROUNDING = 1e-12
"""The share of a total below which a difference is an error of floating point."""

Values: TypeAlias = Sequence[float] | NDArray[np.float64]


class Estimate(msgspec.Struct, frozen=True):
    """An estimate with its confidence interval; without bounds if there are too few values."""

    value: float
    low: float | None = None
    high: float | None = None


class BatchEstimate(msgspec.Struct, frozen=True):
    """An estimate from one long run, in batches that are long enough to be taken as independent."""

    estimate: Estimate
    batches: int
    """The number behind the bounds; without bounds the fewest that were tried, 0 if there are too few windows."""
    reason: str | None = None
    """Why there are no bounds."""


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


def batch_ratio(totals: Values, counts: Values, level: float = LEVEL, max_batches: int | None = None) -> BatchEstimate:
    """The ratio of two sums over the windows of one long run, such as the mean of its response times or its throughput.

    Takes a total and a count for each window, in order of time. Neighbouring windows depend on each other; long batches
    of windows hardly do. The interval is Student's over the batches' differences from the common ratio. It has no
    bounds if there are too few windows, or if even the fewest batches are correlated.
    """
    total, count = (np.asarray(values, dtype=np.float64) for values in (totals, counts))
    _check_windows(total, count)
    ratio = float(total.sum() / count.sum())
    if len(total) < LEAST_WINDOWS:
        too_few = f"{len(total)} windows are too few for an interval; {LEAST_WINDOWS} or more are needed"
        return BatchEstimate(Estimate(ratio), 0, too_few)
    reason: str | None = None
    for batches in _batch_numbers(len(total), max_batches):
        batch_totals, batch_counts = _batch_sums(total, batches), _batch_sums(count, batches)
        residuals = _residuals(batch_totals, batch_counts, ratio)
        reason = _unfit(residuals, batch_counts)
        if reason is None:
            half_width = student_quantile(level, batches - 1) * _ratio_error(residuals, batch_counts)
            return BatchEstimate(Estimate(ratio, ratio - half_width, ratio + half_width), batches)
    return BatchEstimate(Estimate(ratio), batches, reason)


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


def _batch_numbers(windows: int, max_batches: int | None) -> list[int]:
    """The numbers of batches to try, from the largest; chosen by the number of windows alone, never by their values."""
    return [
        number
        for number in BATCH_NUMBERS
        if max_batches is None or number <= max_batches
        if windows >= number * (BATCH_WINDOWS if number > SURE_BATCHES else LEAST_WINDOWS // BATCH_NUMBERS[-1])
    ]


def _batch_sums(values: NDArray[np.float64], batches: int) -> NDArray[np.float64]:
    """The sums of contiguous batches, whose sizes differ by one at most."""
    return np.add.reduceat(values, np.arange(batches) * len(values) // batches)


def _residuals(totals: NDArray[np.float64], counts: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """What each batch has more than by the common ratio; 0 where it is no more than rounding."""
    residuals = totals - ratio * counts
    return np.where(np.abs(residuals) > ROUNDING * np.abs(totals), residuals, 0.0)


def _ratio_error(residuals: NDArray[np.float64], counts: NDArray[np.float64]) -> float:
    """The standard error of a ratio of sums (Cochran, Sampling Techniques, chapter 6)."""
    batches = len(residuals)
    return math.sqrt(batches / (batches - 1) * float(residuals @ residuals)) / float(counts.sum())


def _unfit(residuals: NDArray[np.float64], counts: NDArray[np.float64]) -> str | None:
    """Why an interval over these batches would be too narrow; None if it is not."""
    batches = len(counts)
    if counts.sum() ** 2 < batches / 2 * float(counts @ counts):  # the counts vary by more than their mean
        return f"a few of {batches} batches have most of the counts; take windows in which the load is steady"
    if _correlated(residuals):
        return f"neighbouring batches are correlated even if there are only {batches}; run for longer"
    return None


def _correlated(values: NDArray[np.float64]) -> bool:
    """Whether neighbours are significantly correlated at 95 %: von Neumann's test.

    One-sided: only positive correlation makes an interval too narrow.
    """
    number = len(values)
    spread = math.sqrt((number - 2) / (number**2 - 1))
    return autocorrelation(values, 1) > -1 / number + float(scipy.special.ndtri(0.95)) * spread


def _mean_and_error(values: Values) -> tuple[float, float | None]:
    """The mean and the square of its standard error; None for that of a single value."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.mean()), float(numbers.var(ddof=1)) / len(numbers) if len(numbers) > 1 else None


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidRequest(f"a confidence level of {level:g} is not between 0 and 1; 0.95 is usual")


def _check_windows(totals: NDArray[np.float64], counts: NDArray[np.float64]) -> None:
    if len(totals) != len(counts):
        raise InvalidRequest(f"there are {len(totals)} totals for {len(counts)} counts; give one of each per window")
    if not (counts >= 0).all() or not counts.sum() > 0:
        raise InvalidRequest("a ratio needs counts that are 0 or more and not all 0; let at least one request end")


def _check_summary(stddev: float, count: int) -> None:
    if count < 1:
        raise InvalidRequest(f"a count of {count} is not positive; give the number of values")
    if not stddev >= 0:
        raise InvalidRequest(f"a standard deviation of {stddev:g} is not valid; give 0 or more")
