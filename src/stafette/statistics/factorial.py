"""2^k and 2^k·r experiments: how much each factor, and each combination of factors, moves a response.

The sign table has a row for each combination of levels and a column for each effect. An effect is the sum of the means
of all combinations with those signs, divided by 2^k. This is least squares for a model with all interactions, also if
some combinations have more repetitions than others. Repetitions give the error, and with it an interval of each effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import msgspec
import numpy as np
from numpy.typing import NDArray

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import LEVEL, exponential, student_quantile
from stafette.statistics.levels import JOINT, Factor, Level, Where, factors_of, run_number

MEAN = "mean"
UNEQUAL = (
    "the combinations have different numbers of repetitions: effects and intervals are those of least squares, and the "
    "shares are of the sum of what each effect explains beside all others, not of the total variation"
)
CONSTANT = "the response is the same in every run: there is no variation to explain"


class Effect(msgspec.Struct, frozen=True):
    """Half of the change of the response from the low to the high level; for `mean`, the mean response.

    `share` is its part of the variation in percent (None for the mean). The bounds need repetitions. With logarithms
    the response is multiplied by `ratio` at the high level, and divided by it at the low one.
    """

    name: str
    value: float
    share: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None

    @property
    def matters(self) -> bool | None:
        """Whether the interval excludes zero; None without an interval."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


class Combination(msgspec.Struct, frozen=True):
    """One row of the sign table: its signs, one per effect in the order of the effects, and its measurements."""

    signs: tuple[int, ...]
    repetitions: int
    mean: float


class Analysis(msgspec.Struct, frozen=True):
    """The effects in the order of the sign table (`mean` first), and the unexplained rest."""

    factors: tuple[Factor, ...]
    effects: tuple[Effect, ...]
    error_share: float
    error_deviation: float | None
    freedom: int
    level: float
    multiplicative: bool
    combinations: tuple[Combination, ...]
    residuals: tuple[float, ...]
    notes: tuple[str, ...]

    def effect(self, name: str) -> Effect:
        """The effect with this name, such as `A:B`, with the factors in their given order."""
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise InvalidRequest(f"there is no effect {name}; there are {', '.join(other.name for other in self.effects)}")


def sign_table(factors: int) -> tuple[list[tuple[int, ...]], NDArray[np.int8]]:
    """The effects, each as the factors it multiplies, and the table: all combinations, the first factor slowest."""
    subsets = [subset for size in range(factors + 1) for subset in combinations(range(factors), size)]
    rows = np.array(list(product((-1, 1), repeat=factors)), dtype=np.int8)
    return subsets, np.column_stack([rows[:, subset].prod(axis=1, dtype=np.int8) for subset in subsets])


def analyse(
    columns: Mapping[str, Sequence[Level]],
    responses: Sequence[float],
    *,
    level: float = LEVEL,
    multiplicative: bool = False,
    where: Where = run_number,
) -> Analysis:
    """The effects of some factors, each given by its level in every run, on the response in that run.

    `multiplicative` takes natural logarithms first: for factors that multiply a response rather than add to it.
    `where` gives the name of a run for errors.
    """
    factors, signs = factors_of(columns, where)
    numbers = _numbers(responses, len(signs), multiplicative, where)
    student_quantile(level, 1)  # rejects a wrong level also if there is no interval
    cells = _cells(signs)
    counts = np.bincount(cells, minlength=2 ** len(factors))
    _check_complete(factors, counts)
    means = np.bincount(cells, weights=numbers, minlength=len(counts)) / counts
    residuals = numbers - means[cells]
    if float(np.ptp(numbers)) == 0:  # sums of equal numbers may have rounding errors
        means[:], residuals[:] = numbers[0], 0.0
    subsets, table = sign_table(len(factors))
    values = table.T @ means / len(counts)
    shares, error_share = _shares(values, counts, residuals)
    error, half_width = _precision(counts, residuals, level)
    names = [JOINT.join(factors[index].name for index in subset) or MEAN for subset in subsets]
    notes = ((UNEQUAL,) if counts.min() != counts.max() else ()) + ((CONSTANT,) if np.ptp(numbers) == 0 else ())
    return Analysis(
        factors=factors,
        effects=tuple(
            Effect(
                name,
                float(value),
                share,
                None if half_width is None else float(value - half_width),
                None if half_width is None else float(value + half_width),
                exponential(float(value)) if multiplicative else None,
            )
            for name, value, share in zip(names, values, (None, *shares), strict=True)
        ),
        error_share=error_share,
        error_deviation=error,
        freedom=int(len(numbers) - len(counts)),
        level=level,
        multiplicative=multiplicative,
        combinations=tuple(
            Combination(tuple(row.tolist()), int(count), float(mean))
            for row, count, mean in zip(table, counts, means, strict=True)
        ),
        residuals=tuple(residuals.tolist()),
        notes=notes,
    )


def _numbers(responses: Sequence[float], runs: int, multiplicative: bool, where: Where) -> NDArray[np.float64]:
    if len(responses) != runs:
        raise InvalidRequest(f"there are {len(responses)} responses for {runs} runs; give one for each")
    for index, response in enumerate(responses):
        if not math.isfinite(response):
            raise InvalidRequest(f"the response in {where(index)} is {response}, not a number; leave the run out")
        if multiplicative and response <= 0:
            raise InvalidRequest(f"the response in {where(index)} is {response:g}, which has no logarithm; use sums")
    numbers = np.asarray(responses, dtype=np.float64)
    return np.log(numbers) if multiplicative else numbers


def _cells(signs: NDArray[np.int8]) -> NDArray[np.int64]:
    """The row of the sign table that each run belongs to."""
    weights = 2 ** np.arange(signs.shape[1] - 1, -1, -1, dtype=np.int64)
    rows: NDArray[np.int64] = (signs > 0).astype(np.int64) @ weights
    return rows


def _check_complete(factors: tuple[Factor, ...], counts: NDArray[np.int64]) -> None:
    missing = np.flatnonzero(counts == 0)
    if not len(missing):
        return
    levels = list(product(*((factor.low, factor.high) for factor in factors)))[missing[0]]
    point = ", ".join(f"{factor.name} = {level}" for factor, level in zip(factors, levels, strict=True))
    remainder = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    raise InvalidRequest(f"there is no run with {point}{remainder}; measure every combination of levels")


def _shares(
    values: NDArray[np.float64], counts: NDArray[np.int64], residuals: NDArray[np.float64]
) -> tuple[list[float], float]:
    """Percent of the variation of each effect except the mean, and of the error.

    An effect explains 2^k·r·q², where r is the harmonic mean of the repetitions: with unequal numbers of repetitions
    this is what the fit would lose without that effect.
    """
    repetitions = len(counts) / float((1 / counts).sum())
    explained = len(counts) * repetitions * values[1:] ** 2
    error = float(residuals @ residuals)
    total = float(explained.sum()) + error
    if total == 0:
        return [0.0] * len(explained), 0.0
    return (100 * explained / total).tolist(), 100 * error / total


def _precision(
    counts: NDArray[np.int64], residuals: NDArray[np.float64], level: float
) -> tuple[float | None, float | None]:
    """The deviation of a single run, and half the width of each effect's interval, which is the same for all."""
    freedom = int(counts.sum()) - len(counts)
    if not freedom:
        return None, None
    deviation = math.sqrt(float(residuals @ residuals) / freedom)
    error = deviation * math.sqrt(float((1 / counts).sum())) / len(counts)
    return deviation, student_quantile(level, freedom) * error
