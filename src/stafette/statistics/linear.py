"""Least squares: a response as a sum of terms, each a product of factors; a sweep as a polynomial.

A term is the tuple of the factors it multiplies: () is the intercept, (c, t) an interaction, (n, n) a square. So one
function fits both models with all interactions and curves over one factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import LEVEL, Values, student_quantile

Term: TypeAlias = tuple[str, ...]
Columns: TypeAlias = Mapping[str, Values]

INTERCEPT: Term = ()
MAX_DEGREE = 6
"""A polynomial of a higher degree follows the noise of any realistic sweep."""


class Coefficient(msgspec.Struct, frozen=True):
    """The coefficient of a term; error and bounds need more runs than terms."""

    term: Term
    value: float
    error: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def name(self) -> str:
        """Such as `intercept`, `c:t` or `n^2`."""
        powers = [(factor, len(list(group))) for factor, group in groupby(self.term)]
        return ":".join(factor if power == 1 else f"{factor}^{power}" for factor, power in powers) or "intercept"


class Fit(msgspec.Struct, frozen=True):
    """A fitted model and its quality.

    `r_squared` is the explained share of the variation (None if nothing varies). `f` compares the explained with the
    unexplained variation, with (`terms`, `freedom`) degrees; `probability` is that of such an F by chance. If the model
    has as many terms as there are runs, it fits any measurement, and all that needs an error is None.
    """

    coefficients: tuple[Coefficient, ...]
    r_squared: float | None
    terms: int
    freedom: int
    error_deviation: float | None
    f: float | None
    probability: float | None
    residuals: tuple[float, ...]

    def coefficient(self, *term: str) -> Coefficient:
        """The coefficient of a term, its factors in any order; without factors, of the intercept."""
        for coefficient in self.coefficients:
            if sorted(coefficient.term) == sorted(term):
                return coefficient
        names = ", ".join(coefficient.name for coefficient in self.coefficients)
        raise InvalidRequest(f"the model has no term {':'.join(term)}; it has {names}")

    def at(self, point: Mapping[str, float]) -> float:
        """The response that the model expects at a point."""
        needed = {factor for coefficient in self.coefficients for factor in coefficient.term}
        if missing := needed - point.keys():
            raise InvalidRequest(f"the model needs {', '.join(sorted(missing))} as well; give it a value")
        products = (
            math.prod(point[factor] for factor in coefficient.term) * coefficient.value
            for coefficient in self.coefficients
        )
        return math.fsum(products)


def interactions(factors: Sequence[str]) -> list[Term]:
    """The intercept, every factor, and every product of different factors."""
    return [term for size in range(len(factors) + 1) for term in combinations(factors, size)]


def design_matrix(columns: Columns, terms: Sequence[Term]) -> NDArray[np.float64]:
    """A row for each run and a column for each term."""
    lengths = {name: len(values) for name, values in columns.items()}
    if not lengths or len(set(lengths.values())) > 1:
        raise InvalidRequest(f"the factors differ in their number of runs ({lengths}); give every run all of them")
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    ones = np.ones(next(iter(lengths.values())))
    return np.column_stack([math.prod((arrays[name] for name in term), start=ones) for term in terms])


def fit_interactions(columns: Columns, responses: Values, level: float = LEVEL) -> Fit:
    """The linear model with all interactions."""
    return fit(columns, responses, interactions(list(columns)), level)


def fit_polynomial(
    name: str, values: Values, responses: Values, degree: int = 1, level: float = LEVEL, *, through_zero: bool = False
) -> Fit:
    """A straight line, or a polynomial, over a sweep of one factor."""
    if not 1 <= degree <= MAX_DEGREE:
        raise InvalidRequest(f"a degree of {degree} is not between 1 and {MAX_DEGREE}; 1 is a straight line")
    return fit({name: values}, responses, [(name,) * power for power in range(int(through_zero), degree + 1)], level)


def fit(columns: Columns, responses: Values, terms: Sequence[Term], level: float = LEVEL) -> Fit:
    """The coefficients of these terms that leave the smallest sum of squares."""
    matrix, response = design_matrix(columns, terms), np.asarray(responses, dtype=np.float64)
    _check(matrix, response)
    scale = np.linalg.norm(matrix, axis=0)  # unit columns: products of large levels would dwarf the intercept
    scale[scale == 0] = 1.0
    basis, triangle = np.linalg.qr(matrix / scale)
    _check_rank(triangle, terms)
    inverse = np.linalg.inv(triangle)
    values = inverse @ (basis.T @ response) / scale
    residuals = response - matrix @ values
    unexplained = float(residuals @ residuals)
    freedom = len(response) - len(terms)
    deviation = math.sqrt(unexplained / freedom) if freedom else None
    spread = np.linalg.norm(inverse, axis=1) / scale
    errors = None if deviation is None else deviation * spread
    quantile = student_quantile(level, max(freedom, 1))
    total = _variation(response, INTERCEPT in terms)
    term_count = len(terms) - (INTERCEPT in terms)
    f = _f_statistic(total - unexplained, term_count, unexplained, freedom) if deviation is not None else None
    return Fit(
        coefficients=tuple(
            Coefficient(term, float(value), *(() if errors is None else _bounds(value, errors[index], quantile)))
            for index, (term, value) in enumerate(zip(terms, values, strict=True))
        ),
        r_squared=1 - unexplained / total if total > 0 else None,
        terms=term_count,
        freedom=freedom,
        error_deviation=deviation,
        f=f,
        probability=None if f is None else float(fdtrc(term_count, freedom, f)),
        residuals=tuple(residuals.tolist()),
    )


def _check(matrix: NDArray[np.float64], response: NDArray[np.float64]) -> None:
    runs, terms = matrix.shape
    if len(response) != runs:
        raise InvalidRequest(f"there are {len(response)} responses for {runs} runs; give one for each")
    if not np.isfinite(matrix).all() or not np.isfinite(response).all():
        raise InvalidRequest("a value is not a number; leave that run out")
    if runs < terms:
        raise InvalidRequest(f"{runs} runs do not tell {terms} terms apart; measure more, or leave out terms")


def _check_rank(triangle: NDArray[np.float64], terms: Sequence[Term]) -> None:
    """The columns have unit length, so the diagonal says how independent each is of those before."""
    dependent = np.abs(np.diag(triangle)) < len(terms) * 1e-12
    if dependent.any():
        name = Coefficient(terms[int(np.argmax(dependent))], 0.0).name
        raise InvalidRequest(
            f"{name} follows from the terms before it in these runs; vary it by itself, or leave it out"
        )


def _variation(response: NDArray[np.float64], centred: bool) -> float:
    """The total variation: around the mean, or around zero in a model without an intercept."""
    deviations = response - response.mean() if centred and np.ptp(response) > 0 else response * (not centred)
    return float(deviations @ deviations)


def _f_statistic(explained: float, term_count: int, unexplained: float, freedom: int) -> float | None:
    if not term_count or explained < 0:
        return None
    return explained / term_count / (unexplained / freedom) if unexplained > 0 else math.inf


def _bounds(value: float, error: float, quantile: float) -> tuple[float, float, float]:
    return float(error), float(value - quantile * error), float(value + quantile * error)
