"""Nearest rank, whoever asks: one value, several values, ranks of many counts at once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.load.bench_load import Load, Tally
from stafette.load.self_check import Reservoir
from stafette.runs.percentiles import milliseconds, percentile, percentiles, rank

values = st.lists(st.integers(0, 10**12), min_size=1, max_size=300)
shares = st.integers(1, 1000)


def nearest_rank(numbers: list[int], share: Fraction) -> int:
    return sorted(numbers)[math.ceil(share * len(numbers)) - 1]


@given(values, shares)
def test_percentiles_are_by_nearest_rank(numbers: list[int], share: int) -> None:
    expected = nearest_rank(numbers, Fraction(share, 1000))
    assert percentiles(np.array(numbers), [share]) == [expected]
    assert percentile(sorted(numbers), share) == expected


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=20), shares)
def test_ranks_of_many_counts_are_those_of_each(counts: list[int], share: int) -> None:
    together = rank(np.array(counts), np.array([share]))
    assert together.tolist() == [rank(count, share) for count in counts]


def test_a_percentile_where_floating_point_would_be_one_off() -> None:
    assert math.ceil(0.55 * 100) == 56  # so it is counted in thousandths
    assert percentiles(np.arange(1, 101), [550, 500, 999]) == [55.0, 50.0, 100.0]


def test_percentiles_of_times_are_whole_microseconds() -> None:
    assert [milliseconds(time) for time in (0, 999, 1000, 1_234_567)] == [0.0, 0.0, 0.001, 1.234]


@given(values, shares)
def test_rounding_down_before_or_after_is_the_same(numbers: list[int], share: int) -> None:
    microseconds = [number // 1000 for number in numbers]
    assert milliseconds(percentile(sorted(numbers), share)) == percentile(sorted(microseconds), share) / 1000


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101])
def test_the_bench_and_the_load_generators_health_use_the_same_rule(count: int) -> None:
    tally, samples = Tally(), Reservoir()
    for number in range(1, count + 1):
        tally.response_seconds.append(number / 1000)
        samples.add(number * 1_000_000)
    numbers = list(range(1, count + 1))
    p50, p99 = (nearest_rank(numbers, Fraction(share, 100)) for share in (50, 99))
    summary = tally.summary(Load(""))
    assert (summary["p50_ms"], summary["p99_ms"]) == (pytest.approx(p50), pytest.approx(p99))
    assert samples.spread().p99 == pytest.approx(p99)
