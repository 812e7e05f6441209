"""Whether a run holds still: the trend test of Mann and Kendall on window means, with Sen's slope for its size.

Chosen over a regression because it uses only which of two windows is higher: response times are skewed, and one slow
window (a checkpoint, a pause) bends a fitted line but hardly moves ranks. Windows that follow each other are alike,
which would make chance look like a trend; the variance is therefore enlarged by the autocorrelation of the ranks (the
way of Hamed and Rao, with one correlation that fades instead of one per lag), and long series are averaged down first.
With many windows a trend of no importance becomes certain, so the verdict also asks how large it is.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import rankdata

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import LEVEL, Values, autocorrelation

LEAST_WINDOWS = 10
"""The normal approximation of the statistic is fair from here on."""

MOST_WINDOWS = 200
"""Longer series are averaged in neighbours first: all pairs are compared, and fewer tell a trend as well."""

RELEVANT = 0.05
"""A change over the run, as a share of its median, that is too large to pass over."""

MOST_ALIKE = 0.95
"""The largest correlation of neighbours to reckon with: beyond it a series cannot be told from a trend."""


class Trend(msgspec.Struct, frozen=True):
    """How much the series changes from start to end as a share of its median, and how likely that is by chance."""

    change: float
    probability: float
    stationary: bool
    verdict: str


def trend(values: Values, level: float = LEVEL, relevant: float = RELEVANT) -> Trend:
    """Test a series of window means, in order of time and without warm-up, for a trend."""
    if not 0 < level < 1:
        raise InvalidRequest(f"a level of confidence of {level:g} is not between 0 and 1; 0.95 is usual")
    if len(values) < LEAST_WINDOWS:
        raise InvalidRequest(f"{len(values)} windows are too few for a trend test; make them shorter, for 10 or more")
    series = _averaged(np.asarray(values, dtype=np.float64))
    slope = _sen_slope(series)
    score = _standard_score(series, slope)
    probability = 2 * float(ndtr(-abs(score)))
    middle = abs(float(np.median(series)))
    change = slope * (len(series) - 1) / middle if middle > 0 else math.copysign(math.inf, slope) if slope else 0.0
    certain, large = probability < 1 - level, abs(change) >= relevant
    return Trend(change, probability, not (certain and large), _verdict(change, probability, certain, large))


def _verdict(change: float, probability: float, certain: bool, large: bool) -> str:
    size = f"{abs(change):.1%} over the run (p = {probability:.2g})"
    way = "rises" if change > 0 else "falls"
    if certain and large:
        return f"not stationary: it {way} by {size}; its mean depends on how long one measures"
    if certain:
        return f"stationary enough: it {way} by only {size}"
    if large:
        return f"no trend can be told from chance, but few or noisy windows allow for one: it {way} by {size}"
    return f"stationary: it {way} by {size}, no more than chance" if change else "stationary: there is no trend"


def _averaged(series: NDArray[np.float64]) -> NDArray[np.float64]:
    size = math.ceil(len(series) / MOST_WINDOWS)
    kept = series[len(series) % size :]
    means: NDArray[np.float64] = kept.reshape(-1, size).mean(axis=1)
    return means


def _sen_slope(series: NDArray[np.float64]) -> float:
    """The median of the slopes between all pairs, per window."""
    earlier, later = np.triu_indices(len(series), 1)
    return float(np.median((series[later] - series[earlier]) / (later - earlier)))


def _standard_score(series: NDArray[np.float64], slope: float) -> float:
    """Kendall's S over its deviation, which knows of ties and of neighbours that are alike."""
    count = len(series)
    earlier, later = np.triu_indices(count, 1)
    statistic = float(np.sign(series[later] - series[earlier]).sum())
    _, ties = np.unique(series, return_counts=True)
    variance = _pairs_variance(np.array([count])) - _pairs_variance(ties)
    if variance <= 0 or statistic == 0:
        return 0.0
    # one less towards zero: S moves in steps of 2 while the normal distribution is smooth
    return math.copysign(abs(statistic) - 1, statistic) / math.sqrt(variance * _inflation(series, slope))


def _pairs_variance(groups: NDArray[np.int64]) -> float:
    return float((groups * (groups - 1.0) * (2.0 * groups + 5.0)).sum()) / 18


def _inflation(series: NDArray[np.float64], slope: float) -> float:
    """By how much the likeness of neighbours enlarges the variance of S; never below 1.

    Correlation is taken to fade by the same factor from each window to the next. Its estimate from a short series,
    whose trend is taken out, is too low by about (2 + 4ρ)/n, which is put back: else chance too often passes for a
    trend.
    """
    count = len(series)
    found = autocorrelation(rankdata(series - slope * np.arange(count)), 1)
    correlation = min(max(found + (2 + 4 * found) / count, 0.0), MOST_ALIKE)
    left = np.arange(count - 1, 2, -1, dtype=np.float64)  # pairs at each distance, from neighbours on
    weights = left * (left - 1) * (left - 2) * correlation ** np.arange(1, count - 2)
    return 1 + 2 * float(weights.sum()) / (count * (count - 1) * (count - 2))
