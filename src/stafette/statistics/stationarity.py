"""Whether a run is stationary: the trend test of Mann and Kendall on window means, with Sen's slope for its size.

Preferred to a regression because it uses only ranks: response times are skewed, and one slow window (a checkpoint, a
pause) changes a fitted line but hardly any ranks. Neighbouring windows are correlated, which would make chance look
like a trend. So the variance is enlarged by the autocorrelation of the ranks (as Hamed and Rao do, but with one
correlation that decays instead of one per lag), and long series are averaged first. With many windows even a small
trend becomes significant, so the verdict also depends on its size.
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

MIN_WINDOWS = 10
"""The normal approximation of the statistic is good enough from here on."""

MAX_WINDOWS = 200
"""In longer series neighbours are averaged first: all pairs are compared, and fewer windows show a trend as well."""

RELEVANT = 0.05
"""The smallest change over the run, as a share of its median, that matters."""

MAX_CORRELATION = 0.95
"""The largest correlation of neighbours that is assumed: beyond it a series looks the same as a trend."""


class Trend(msgspec.Struct, frozen=True):
    """How much the series changes from start to end as a share of its median, and how likely that is by chance."""

    change: float
    probability: float
    stationary: bool
    verdict: str


def trend(values: Values, level: float = LEVEL, relevant: float = RELEVANT) -> Trend:
    """Test a series of window means, in order of time and without warm-up, for a trend."""
    if not 0 < level < 1:
        raise InvalidRequest(f"a confidence level of {level:g} is not between 0 and 1; 0.95 is usual")
    if len(values) < MIN_WINDOWS:
        raise InvalidRequest(f"{len(values)} windows are too few for a trend test; make them shorter, for 10 or more")
    series = _merge_windows(np.asarray(values, dtype=np.float64))
    slope = _sen_slope(series)
    score = _standard_score(series, slope)
    probability = 2 * float(ndtr(-abs(score)))
    middle = abs(float(np.median(series)))
    change = slope * (len(series) - 1) / middle if middle > 0 else math.copysign(math.inf, slope) if slope else 0.0
    certain, large = probability < 1 - level, abs(change) >= relevant
    return Trend(change, probability, not (certain and large), _verdict(change, probability, certain, large))


def _verdict(change: float, probability: float, certain: bool, large: bool) -> str:
    size = f"{abs(change):.1%} over the run (p = {probability:.2g})"
    direction = "rises" if change > 0 else "falls"
    if certain and large:
        return f"not stationary: it {direction} by {size}; its mean depends on how long one measures"
    if certain:
        return f"stationary enough: it {direction} by only {size}"
    if large:
        return f"no trend can be told from chance, but few or noisy windows allow for one: it {direction} by {size}"
    return f"stationary: it {direction} by {size}, no more than chance" if change else "stationary: there is no trend"


def _merge_windows(series: NDArray[np.float64]) -> NDArray[np.float64]:
    size = math.ceil(len(series) / MAX_WINDOWS)
    tail = series[len(series) % size :]
    means: NDArray[np.float64] = tail.reshape(-1, size).mean(axis=1)
    return means


def _sen_slope(series: NDArray[np.float64]) -> float:
    """The median of the slopes between all pairs, per window."""
    earlier, later = np.triu_indices(len(series), 1)
    return float(np.median((series[later] - series[earlier]) / (later - earlier)))


def _standard_score(series: NDArray[np.float64], slope: float) -> float:
    """Kendall's S over its deviation, corrected for ties and for correlated neighbours."""
    count = len(series)
    earlier, later = np.triu_indices(count, 1)
    statistic = float(np.sign(series[later] - series[earlier]).sum())
    _, ties = np.unique(series, return_counts=True)
    variance = _pairs_variance(np.array([count])) - _pairs_variance(ties)
    if variance <= 0 or statistic == 0:
        return 0.0
    # continuity correction: S moves in steps of 2
    return math.copysign(abs(statistic) - 1, statistic) / math.sqrt(variance * _inflation(series, slope))


def _pairs_variance(groups: NDArray[np.int64]) -> float:
    return float((groups * (groups - 1.0) * (2.0 * groups + 5.0)).sum()) / 18


def _inflation(series: NDArray[np.float64], slope: float) -> float:
    """The factor by which the correlation of neighbours enlarges the variance of S; at least 1.

    Correlation is assumed to decay by the same factor per window. Its estimate from a short detrended series is too low
    by about (2 + 4ρ)/n, which is added: else chance too often passes for a trend.
    """
    count = len(series)
    estimate = autocorrelation(rankdata(series - slope * np.arange(count)), 1)
    correlation = min(max(estimate + (2 + 4 * estimate) / count, 0.0), MAX_CORRELATION)
    pairs = np.arange(count - 1, 2, -1, dtype=np.float64)  # pairs at each distance, from neighbours on
    weights = pairs * (pairs - 1) * (pairs - 2) * correlation ** np.arange(1, count - 2)
    return 1 + 2 * float(weights.sum()) / (count * (count - 1) * (count - 2))
