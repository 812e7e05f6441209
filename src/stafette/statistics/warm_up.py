"""Where a run has settled: MSER-5 on a series in order of time.

The values are averaged in fives. Cutting more of the start removes bias but leaves fewer values; the standard error of
the rest balances the two, and the cut with the smallest is taken. Never more than half is cut: a run that is settled in
its later half only was too short, and the result says so instead. Of runs that are settled throughout it rejects, by
chance, one in seven with 100 values, one in twenty with 200 and hardly any with 300 (simulated).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from stafette.statistics.intervals import Values

BATCH = 5
"""The 5 of MSER-5."""

MIN_BATCHES = 10
"""With fewer the standard error is mostly chance."""

MIN_REMAINING = 5
"""The fewest batches that a cut may leave."""


class WarmUp(msgspec.Struct, frozen=True):
    """The number of values to cut from the start, whether the run settled at all, and the reason."""

    index: int
    settled: bool
    reason: str


def mser5(values: Values) -> WarmUp:
    """The truncation point of a series, in values from its start; 0 if there is none."""
    batches = len(values) // BATCH
    if batches < MIN_BATCHES:
        return WarmUp(
            0,
            False,
            f"{len(values)} values are too few to find a warm-up; use shorter windows so that there are "
            f"{BATCH * MIN_BATCHES} or more, or give the warm-up",
        )
    means = np.asarray(values, dtype=np.float64)[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    errors = _squared_errors(means)
    best = int(np.argmin(errors))
    if 2 * best >= batches:
        return WarmUp(0, False, "the run had not settled by its middle; nothing is cut: let it run for longer")
    if best == 0:
        return WarmUp(0, True, "the run is settled from its start; nothing to cut")
    return WarmUp(best * BATCH, True, f"the first {best / batches:.0%} of the run are unlike the rest and are cut")


def _squared_errors(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each number of batches cut, the squared standard error of the mean of the rest.

    Cuts that leave less than a fifth of the run, or fewer than `MIN_REMAINING`, are not tried: so few are too noisy.
    """
    cut_count = len(means) - max(MIN_REMAINING, len(means) // 5) + 1
    centred = means - means.mean()  # for precision: squares of large means would hide the differences
    remaining = np.arange(len(means), 0, -1, dtype=np.float64)
    sums, squares = (np.cumsum(part[::-1])[::-1] for part in (centred, centred**2))
    spread: NDArray[np.float64] = np.maximum(squares - sums**2 / remaining, 0.0) / remaining**2
    return spread[:cut_count]
