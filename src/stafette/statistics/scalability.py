"""The Universal Scalability Law: contention limits throughput, and coherence makes it fall.

    X(N) = λ·N / (1 + σ·(N - 1) + κ·N·(N - 1))

λ is the throughput of one, σ the share of work that only one can do at a time, κ the cost of coordinating each pair.
The law is linear in N/X, which gives good starting values. The fit itself is of X, within the bounds in which the
parameters have a meaning.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import LEVEL, Estimate, Values, student_quantile

MIN_LOADS = 3
"""As many different loads as there are parameters."""

NEGLIGIBLE = 1e-9
"""A contention or coherence below it counts as 0: the fit stops close to its bound, not on it."""


class Scalability(msgspec.Struct, frozen=True):
    """A fitted law. Intervals are those of the linearised fit, cut at the bounds; None if there are only three runs."""

    throughput_of_one: Estimate
    contention: Estimate
    coherence: Estimate
    r_squared: float
    residuals: tuple[float, ...]
    notes: tuple[str, ...]
    spread: tuple[tuple[float, ...], ...] | None = None
    """The covariance of the three parameters, times the square of Student's quantile; for a band around the curve."""

    def at(self, load: float) -> float:
        """The throughput that the law predicts for a number of clients, workers or machines."""
        return float(_law(np.array([load], dtype=np.float64), self._parameters)[0])

    def interval_at(self, load: float) -> Estimate:
        """The same with an interval of the mean throughput, by the slope of the law in its parameters."""
        expected = self.at(load)
        if self.spread is None:
            return Estimate(expected)
        of_one, contention, coherence = self._parameters
        denominator = 1 + contention * (load - 1) + coherence * load * (load - 1)
        partial = -of_one * load * (load - 1) / denominator**2
        slope = np.array([load / denominator, partial, partial * load])
        half_width = math.sqrt(max(float(slope @ np.array(self.spread) @ slope), 0.0))
        return Estimate(expected, max(expected - half_width, 0.0), expected + half_width)

    @property
    def _parameters(self) -> NDArray[np.float64]:
        return np.array([self.throughput_of_one.value, self.contention.value, self.coherence.value])

    @property
    def peak(self) -> float | None:
        """The load with the highest throughput; None if throughput never falls."""
        if not self.coherence.value:
            return None
        return math.sqrt(max(1 - self.contention.value, 0.0) / self.coherence.value)

    @property
    def limit(self) -> float | None:
        """The limit of throughput; None if there is none."""
        if self.peak is not None:
            return self.at(max(self.peak, 1.0))
        return self.throughput_of_one.value / self.contention.value if self.contention.value else None


def fit_scalability(loads: Values, throughputs: Values, level: float = LEVEL) -> Scalability:
    """The law that fits throughputs measured at these loads; repetitions are repeated pairs."""
    load, measured = np.asarray(loads, dtype=np.float64), np.asarray(throughputs, dtype=np.float64)
    _check(load, measured)
    unit = float(measured.max())  # λ in this unit is near 1, which suits the optimiser
    solution = least_squares(
        lambda parameters: _law(load, parameters) - measured / unit,
        _start(load, measured / unit),
        bounds=([0.0, 0.0, 0.0], [np.inf, 1.0, np.inf]),
        x_scale="jac",
        ftol=1e-12,
        xtol=1e-12,
        gtol=1e-12,
    )
    values = np.where(solution.x < NEGLIGIBLE, 0.0, solution.x)
    residuals = measured - unit * _law(load, values)
    freedom = len(load) - 3
    scale = np.array([unit, 1.0, 1.0])
    spread = None
    if freedom:
        covariance = _covariance(solution.jac, float(2 * solution.cost), freedom)
        spread = student_quantile(level, freedom) ** 2 * covariance * np.outer(scale, scale)
    of_one, contention, coherence = (
        _estimate(float(value), None if spread is None else math.sqrt(spread[index, index]), bound)
        for index, (value, bound) in enumerate(zip(values * scale, (math.inf, 1.0, math.inf), strict=True))
    )
    centred = measured - measured.mean()
    variation = float(centred @ centred)
    explained = 1 - float(residuals @ residuals) / variation if variation > 0 else 1.0
    spread_rows = None if spread is None else tuple(tuple(row) for row in spread.tolist())
    return Scalability(
        of_one, contention, coherence, explained, tuple(residuals.tolist()), _notes(values, load), spread_rows
    )


def _law(load: NDArray[np.float64], parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    of_one, contention, coherence = parameters
    curve: NDArray[np.float64] = of_one * load / (1 + contention * (load - 1) + coherence * load * (load - 1))
    return curve


def _start(load: NDArray[np.float64], measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """From N/X = (1 + σ(N-1) + κN(N-1))/λ, with parameters of 0 or more, weighted for relative errors of X."""
    columns = np.column_stack([np.ones_like(load), load - 1, load * (load - 1)])
    weight = measured / load
    inverse, contention, coherence = nnls(columns * weight[:, None], np.ones_like(load))[0]
    if inverse <= 0:
        inverse = float(load[0] / measured[0])
    # just inside the bounds: from a bound a parameter could move one way only
    return np.array([1 / inverse, min(max(contention / inverse, 1e-4), 0.99), max(coherence / inverse, 1e-7)])


def _covariance(jacobian: NDArray[np.float64], squares: float, freedom: int) -> NDArray[np.float64]:
    """Of the parameters, from the slope of the law at the solution."""
    scale = np.linalg.norm(jacobian, axis=0)
    scale[scale == 0] = 1.0
    inverse = np.linalg.pinv(jacobian / scale)
    spread: NDArray[np.float64] = inverse @ inverse.T / np.outer(scale, scale) * (squares / freedom)
    return spread


def _estimate(value: float, half_width: float | None, bound: float) -> Estimate:
    if half_width is None:
        return Estimate(value)
    return Estimate(value, max(value - half_width, 0.0), min(value + half_width, bound))


def _notes(values: NDArray[np.float64], load: NDArray[np.float64]) -> tuple[str, ...]:
    notes = []
    if not values[2]:
        notes.append("no coherence was found: throughput never falls in this law, and its intervals are rough")
    elif not values[1]:
        notes.append("no contention was found: its interval and that of coherence are rough")
    if values[2] and math.sqrt(max(1 - values[1], 0.0) / values[2]) > load.max():
        notes.append("the peak lies beyond the measured loads: measure there before you rely on it")
    return tuple(notes)


def _check(load: NDArray[np.float64], measured: NDArray[np.float64]) -> None:
    if len(load) != len(measured):
        raise InvalidRequest(f"there are {len(load)} loads and {len(measured)} throughputs; give one for each")
    if not np.isfinite(load).all() or not np.isfinite(measured).all():
        raise InvalidRequest("a load or throughput is not a number; leave that run out")
    if len(load) and (load.min() < 1 or measured.min() <= 0):
        raise InvalidRequest("a load is below 1 or a throughput not above 0; leave that run out")
    if len(np.unique(load)) < MIN_LOADS:
        raise InvalidRequest(
            f"{len(np.unique(load))} different loads do not determine 3 parameters; measure {MIN_LOADS}"
        )
