"""Exact percentiles from counts, in two steps: in which bin the rank lies, and which value of that bin has it.

A key is whatever is ranked together, as a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stafette.pipeline.counted import Whole
from stafette.pipeline.transforms.bins import bins_of
from stafette.runs.percentiles import rank

BINS = 2**18
"""More than there are."""


@dataclass(frozen=True)
class Located:
    """For each key (a row) and share (a column): the bin of the percentile, and its place among the values there."""

    keys: Whole
    totals: Whole
    bins: Whole
    places: Whole


def locate(keys: Whole, bins: Whole, counts: Whole, thousandths: Sequence[int]) -> Located:
    """Find the bins that percentiles lie in."""
    pairs, inverse = np.unique(keys * BINS + bins, return_inverse=True)
    amounts = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(amounts, inverse, counts)
    found, first = np.unique(pairs // BINS, return_index=True)
    upto = np.cumsum(amounts)
    before = np.concatenate([[0], upto])[first]
    totals = np.concatenate([before[1:], upto[-1:]]) - before
    ranks = rank(totals[:, None], np.asarray(thousandths, dtype=np.int64))
    at = np.searchsorted(upto, before[:, None] + ranks)
    below = np.concatenate([[0], upto])[at]
    return Located(found, totals, pairs[at] % BINS, before[:, None] + ranks - below)


class Ranked:
    """Values in order, by their keys."""

    def __init__(self, keys: Whole, values: Whole, counts: Whole) -> None:
        order = np.lexsort((values, keys))
        self._pairs = keys[order] * BINS + bins_of(values[order])
        self._values = values[order]
        self._upto = np.concatenate([[0], np.cumsum(counts[order])])

    def at(self, located: Located) -> Whole:
        """The percentiles themselves. All values of the located bins must be here; others do not matter."""
        start = np.searchsorted(self._pairs, located.keys[:, None] * BINS + located.bins)
        place = np.searchsorted(self._upto, self._upto[start] + located.places) - 1
        found: Whole = self._values[place]
        return found

    def below(self, key: int, bin_: int, limit: int) -> int:
        """How many values of a bin are below a limit in it."""
        low, high = np.searchsorted(self._pairs, [key * BINS + bin_, key * BINS + bin_ + 1])
        end = low + int(np.searchsorted(self._values[low:high], limit))
        return int(self._upto[end] - self._upto[low])
