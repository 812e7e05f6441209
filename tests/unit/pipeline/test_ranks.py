"""Bins and exact percentiles from counts, against numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from stafette.pipeline.transforms.bins import LARGEST, bins_of, lower_bounds

from stafette.pipeline import ranks

SHARES = (25, 500, 900, 950, 975, 990, 999)
values = st.integers(0, 10**9) | st.integers(0, 5000)


@given(st.lists(values, min_size=1, max_size=200))
def test_a_value_lies_between_the_bounds_of_its_bin(found: list[int]) -> None:
    numbers = np.array(found, dtype=np.int64)
    bins = bins_of(numbers)
    assert (lower_bounds(bins) <= numbers).all()
    assert (numbers < lower_bounds(bins + 1)).all()


def test_bins_follow_one_another_without_a_gap() -> None:
    bins = np.arange(2000)
    assert (np.diff(lower_bounds(bins)) > 0).all()
    assert (bins_of(lower_bounds(bins)) == bins).all()
    assert bins_of(np.array([2**55]))[0] == LARGEST


@given(st.lists(st.tuples(st.integers(0, 3), values), min_size=1, max_size=300))
def test_percentiles_are_by_nearest_rank(pairs: list[tuple[int, int]]) -> None:
    keys, numbers = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    once = np.ones_like(keys)
    located = ranks.locate(keys, bins_of(numbers), once, SHARES)
    needed = np.isin(keys * ranks.BINS + bins_of(numbers), located.keys[:, None] * ranks.BINS + located.bins)
    found = ranks.Ranked(keys[needed], numbers[needed], once[needed]).at(located)
    for row, key in enumerate(located.keys):
        ordered = np.sort(numbers[keys == key])
        assert located.totals[row] == len(ordered)
        expected = [ordered[-(-share * len(ordered) // 1000) - 1] for share in SHARES]
        assert found[row].tolist() == expected


@given(st.lists(values, min_size=1, max_size=200), st.integers(1, 10**7))
def test_how_many_of_a_bin_are_below_a_limit(found: list[int], limit: int) -> None:
    numbers = np.array(found, dtype=np.int64)
    edge = int(bins_of(np.array([limit]))[0])
    ranked = ranks.Ranked(np.zeros_like(numbers), numbers, np.ones_like(numbers))
    assert ranked.below(0, edge, limit) == ((bins_of(numbers) == edge) & (numbers < limit)).sum()
