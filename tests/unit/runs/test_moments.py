"""Moments are those of exact arithmetic, whatever the size and the order of the values."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.runs.moments import mean_ms, stddev_ms, sums

times = st.integers(0, 2**50) | st.integers(-(2**50), 2**50) | st.integers(-(2**63), 2**63 - 1)


def array(numbers: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


@given(st.lists(times, max_size=50))
def test_sums_are_exact(numbers: list[int]) -> None:
    assert sums(array(numbers)) == (sum(numbers), sum(number**2 for number in numbers))


@pytest.mark.parametrize("extreme", [2**50 - 1, 2**50, -(2**50), -(2**50) - 1, 2**25 - 1, 2**63 - 1])
def test_no_partial_sum_overflows(extreme: int) -> None:
    assert sums(array([extreme] * 10_000)) == (10_000 * extreme, 10_000 * extreme**2)


def test_sums_of_many_chunks() -> None:
    numbers = np.random.default_rng(5).integers(0, 2**50, 20_001)
    assert sums(numbers) == (sum(numbers.tolist()), sum(number**2 for number in numbers.tolist()))


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=50))
def test_moments_are_rounded_from_exact_values(numbers: list[int]) -> None:
    count, (total, squares) = len(numbers), sums(array(numbers))
    assert mean_ms(count, total) == float(Fraction(total, count) / 10**6)
    stddev = stddev_ms(count, total, squares)
    if count == 1:
        assert stddev is None
    else:
        variance = statistics.variance([Fraction(number) for number in numbers])
        assert stddev == math.sqrt(float(variance)) / 10**6


def test_a_small_deviation_of_long_times_is_not_lost() -> None:
    """In floating point the difference of two numbers near 2**100 would be 0, or negative."""
    total, squares = sums(array([2**50 - 1, 2**50 + 1]))
    assert stddev_ms(2, total, squares) == math.sqrt(2) / 10**6
    assert stddev_ms(3, 3 * 2**50, 3 * 2**100) == 0.0


def test_moments_worked_by_hand() -> None:
    count, (total, squares) = 3, sums(array([1_000_000, 2_000_000, 3_000_000]))
    assert (mean_ms(count, total), stddev_ms(count, total, squares)) == (2.0, 1.0)
    assert sums(array([])) == (0, 0)
