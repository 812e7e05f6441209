"""Intervals are those of the textbooks, and cover what they claim to."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import (
    BatchEstimate,
    Estimate,
    autocorrelation,
    batch_ratio,
    deviation_interval,
    deviation_interval_from,
    difference_interval,
    interval,
    mean_interval,
    mean_interval_from,
    precise_enough,
    ratio_interval,
)

DRAWS = 2000

values = st.lists(st.floats(0.1, 1000.0), min_size=2, max_size=12)
levels = st.sampled_from([0.8, 0.9, 0.95, 0.999])


def test_an_interval_worked_by_hand() -> None:
    """Mean 5, deviation 2, n 4: the standard error is 1, and t(0.975; 3) in any table is 3.182."""
    numbers = [5 - math.sqrt(6), 5.0, 5.0, 5 + math.sqrt(6)]
    mean, half_width = interval(numbers, 0.95)
    assert mean == pytest.approx(5.0)
    assert half_width == pytest.approx(3.182, abs=5e-4)


@given(values, levels)
def test_an_interval_is_student_s(numbers: list[float], level: float) -> None:
    mean, half_width = interval(numbers, level)
    assert half_width is not None
    error = np.std(numbers, ddof=1) / math.sqrt(len(numbers))
    assert mean == pytest.approx(np.mean(numbers))
    assert half_width == pytest.approx(stats.t.ppf((1 + level) / 2, len(numbers) - 1) * error, rel=1e-6, abs=1e-9)


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    assert interval([3.0]) == (3.0, None)
    assert interval([3.0, 3.0]) == (3.0, 0.0)
    with pytest.raises(InvalidRequest, match="there is no value"):
        interval([])


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_is_between_0_and_1(level: float) -> None:
    with pytest.raises(InvalidRequest, match="is not between 0 and 1"):
        interval([1.0, 2.0], level)


def test_when_to_stop() -> None:
    """Mean 100 and standard error 1 with n = 4: half the width is 3.182, or 3.2 % of the mean."""
    numbers = [100 - math.sqrt(6), 100.0, 100.0, 100 + math.sqrt(6)]
    assert precise_enough(numbers, 0.032, 0.95, 3)
    assert not precise_enough(numbers, 0.031, 0.95, 3)
    assert not precise_enough(numbers, 0.032, 0.99, 3)
    assert not precise_enough(numbers, 0.032, 0.95, 5)
    assert precise_enough([-number for number in numbers], 0.032, 0.95, 3)


def test_one_value_is_never_enough() -> None:
    assert not precise_enough([100.0], 0.5, 0.95, 1)
    assert not precise_enough([], 0.5, 0.95, 0)
    assert precise_enough([0.0, 0.0], 0.5)
    assert not precise_enough([math.nan, 1.0], 0.5)


def test_a_ratio_worked_by_hand() -> None:
    """Logarithms 0 ± 1 and 2 ± 1 with n = 2: the errors are 1 each, Welch gives 2 degrees of freedom, t is 4.3027."""
    a, b = [math.exp(-1), math.exp(1)], [math.exp(1), math.exp(3)]
    ratio = ratio_interval(a, b, 0.95)
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    reach = 4.3027 * math.sqrt(2)
    assert math.log(ratio.value) == pytest.approx(2.0)
    assert math.log(ratio.low) == pytest.approx(2.0 - reach, abs=1e-3)
    assert math.log(ratio.high) == pytest.approx(2.0 + reach, abs=1e-3)


@given(values, values, levels)
def test_a_difference_is_welch_s(a: list[float], b: list[float], level: float) -> None:
    found = difference_interval(a, b, level)
    if np.ptp(a) > 1e-3 < np.ptp(b):  # below that scipy warns of its own rounding
        wanted = stats.ttest_ind(b, a, equal_var=False).confidence_interval(level)
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-6, abs=1e-6)
    assert found.value == pytest.approx(np.mean(b) - np.mean(a))


@given(values, values, levels)
def test_a_ratio_turns_over_with_its_sides(a: list[float], b: list[float], level: float) -> None:
    there, back = ratio_interval(a, b, level), ratio_interval(b, a, level)
    assert there is not None
    assert back is not None
    assert there.low is not None
    assert back.high is not None
    assert math.log(there.value) == pytest.approx(-math.log(back.value), abs=1e-9)
    assert math.log(there.value) == pytest.approx(math.log(stats.gmean(b) / stats.gmean(a)), abs=1e-9)
    if there.low > 0 and math.isfinite(back.high):
        assert math.log(there.low) == pytest.approx(-math.log(back.high), abs=1e-9)


def bounds(estimate: Estimate | None) -> tuple[float, float | None, float | None]:
    assert estimate is not None
    return estimate.value, estimate.low, estimate.high


def test_ratios_that_have_no_interval_or_do_not_exist() -> None:
    assert bounds(ratio_interval([2.0], [3.0, 3.0])) == pytest.approx((1.5, None, None))
    assert bounds(ratio_interval([2.0, 2.0], [3.0])) == pytest.approx((1.5, None, None))
    assert ratio_interval([0.0, 2.0], [3.0, 3.0]) is None
    assert ratio_interval([2.0, 2.0], [3.0, -3.0]) is None
    assert ratio_interval([], [3.0]) is None
    assert bounds(ratio_interval([2.0, 2.0], [3.0, 3.0])) == pytest.approx((1.5, 1.5, 1.5))


def test_wide_ratios_do_not_overflow() -> None:
    ratio = ratio_interval([1e-300, 1e300], [1e-300, 1e300])
    assert ratio is not None
    assert (ratio.low, ratio.high) == (0.0, math.inf)


def test_a_ratio_over_batches_worked_by_hand() -> None:
    """Five batches of 20, each of two windows, differ by ±4 from 2 each: the error is √(5/4 · 4 · 16) / 100."""
    totals = [22.0, 22.0, 18.0, 18.0, 20.0, 20.0, 18.0, 18.0, 22.0, 22.0]
    ratio = batch_ratio(totals, [10.0] * 10, 0.95)
    assert (ratio.batches, ratio.reason) == (5, None)
    reach = 2.7764 * math.sqrt(5 / 4 * 4 * 16) / 100
    assert bounds(ratio.estimate) == pytest.approx((2.0, 2.0 - reach, 2.0 + reach), abs=1e-5)


def test_a_ratio_is_of_the_sums_and_not_a_mean_of_ratios() -> None:
    chance = np.random.default_rng(1)
    counts = chance.poisson(2, 307).astype(float)
    totals = counts * chance.normal(10, 1, 307)
    ratio = batch_ratio(totals, counts)
    assert ratio.estimate.value == pytest.approx(totals.sum() / counts.sum(), rel=1e-12)
    assert (counts == 0).any()


@pytest.mark.parametrize("windows", [10, 61, 307, 1000])
def test_no_window_is_left_out_of_the_bounds(windows: int) -> None:
    steady = np.random.default_rng(1).normal(10, 1, windows)
    usual = width(batch_ratio(steady, np.ones(windows)).estimate)
    for position in range(windows):
        totals = steady.copy()
        totals[position] = 1000
        assert width(batch_ratio(totals, np.ones(windows)).estimate) > 2 * usual


def width(estimate: Estimate) -> float:
    _, low, high = bounds(estimate)
    assert low is not None
    assert high is not None
    return high - low


@pytest.mark.parametrize(
    ("windows", "batches"),
    [(10, 5), (12, 6), (239, 6), (240, 8), (300, 10), (450, 15), (599, 15), (600, 20), (9999, 20)],
)
def test_more_windows_make_more_batches(windows: int, batches: int) -> None:
    alternating = np.resize([1.0, 2.0, 4.0, 1.5], windows)
    assert batch_ratio(alternating, np.ones(windows)).batches == batches


@given(st.lists(st.tuples(st.floats(0, 1e12), st.integers(0, 1000)), min_size=1, max_size=80), levels)
def test_a_ratio_is_within_its_own_bounds(windows: list[tuple[float, int]], level: float) -> None:
    totals, counts = [total for total, _ in windows], [float(count) for _, count in windows]
    if not sum(counts):
        with pytest.raises(InvalidRequest, match="not all 0"):
            batch_ratio(totals, counts)
        return
    ratio = batch_ratio(totals, counts, level)
    value, low, high = ratio.estimate.value, ratio.estimate.low, ratio.estimate.high
    assert (low is None) == (high is None) == (ratio.reason is not None)
    assert low is None or high is None or low <= value <= high


def test_ratios_without_bounds() -> None:
    few = batch_ratio([10.0] * 9, [5.0] * 9)
    assert few == BatchEstimate(Estimate(2.0), 0, "9 windows are too few for an interval; 10 or more are needed")
    trend = batch_ratio(list(range(1, 601)), np.ones(600))
    assert (trend.estimate, trend.batches) == (Estimate(300.5), 5)
    assert trend.reason == "neighbouring batches are correlated even if there are only 5; run for longer"
    burst = batch_ratio([0.0] * 50 + [30.0] * 10, [0.0] * 50 + [3.0] * 10)  # all in one batch, so nothing can differ
    assert (burst.estimate, burst.batches) == (Estimate(10.0), 5)
    assert burst.reason is not None
    assert "a few of 5 batches have most of the counts" in burst.reason


def test_a_ratio_that_never_varies_has_an_interval_without_width() -> None:
    counts = np.random.default_rng(1).poisson(7, 300).astype(float)
    assert batch_ratio(0.1 * counts, counts).reason is None  # rounding is not taken for correlation
    value, low, high = bounds(batch_ratio(0.1 * counts, counts).estimate)
    assert (low, high) == (value, value)


def test_fewer_batches_are_taken_if_they_are_correlated() -> None:
    wave = np.sin(np.arange(600) * 2 * math.pi / 240)  # eight of 20 batches make a period, and less than three of six
    ratio = batch_ratio(10 + wave, np.ones(600))
    assert ratio.reason is None
    assert ratio.batches < 20


@pytest.mark.parametrize(
    ("totals", "counts", "fault"),
    [
        ([1.0, 2.0], [1.0], "there are 2 totals for 1 counts"),
        ([], [], "not all 0"),
        ([1.0], [0.0], "not all 0"),
        ([1.0, 1.0], [3.0, -1.0], "0 or more"),
        ([1.0], [math.nan], "0 or more"),
    ],
)
def test_windows_that_have_no_ratio(totals: list[float], counts: list[float], fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        batch_ratio(totals, counts)


def test_a_deviation_worked_by_hand() -> None:
    """s = 2 with n = 11: χ² of 10 degrees is 20.483 and 3.247 in any table."""
    found = deviation_interval_from(2.0, 11, 0.95)
    assert bounds(found) == pytest.approx((2.0, 2 * math.sqrt(10 / 20.483), 2 * math.sqrt(10 / 3.247)), rel=1e-4)


@given(values, levels)
def test_a_sample_and_its_summary_give_the_same_intervals(numbers: list[float], level: float) -> None:
    mean, deviation, count = float(np.mean(numbers)), float(np.std(numbers, ddof=1)), len(numbers)
    assert bounds(mean_interval(numbers, level)) == pytest.approx(
        bounds(mean_interval_from(mean, deviation, count, level))
    )
    found = deviation_interval(numbers, level)
    assert bounds(found) == pytest.approx(bounds(deviation_interval_from(deviation, count, level)))
    assert bounds(found)[0] == pytest.approx(deviation)


def test_summaries_that_are_none() -> None:
    assert mean_interval_from(3.0, 0.0, 1) == Estimate(3.0)
    assert deviation_interval_from(0.0, 1) == Estimate(0.0)
    for stddev, count in ((1.0, 0), (-1.0, 5), (math.nan, 5)):
        with pytest.raises(InvalidRequest, match="is not"):
            mean_interval_from(3.0, stddev, count)
        with pytest.raises(InvalidRequest, match="is not"):
            deviation_interval_from(stddev, count)
    with pytest.raises(InvalidRequest, match="at least 2 values"):
        deviation_interval([1.0])
    with pytest.raises(InvalidRequest, match="is not between 0 and 1"):
        deviation_interval_from(1.0, 5, 95)
    with pytest.raises(InvalidRequest, match="nothing to compare"):
        difference_interval([], [1.0])


def test_arrays_are_values_as_well() -> None:
    numbers = np.array([1.0, 2.0, 4.0])
    assert interval(numbers) == interval([1.0, 2.0, 4.0])
    assert ratio_interval(numbers, 2 * numbers) == ratio_interval([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])


def test_autocorrelation() -> None:
    assert autocorrelation([1.0, -1.0] * 50, 1) == pytest.approx(-0.99)
    assert autocorrelation([1.0, -1.0] * 50, 2) == pytest.approx(0.98)
    assert autocorrelation([5.0] * 9, 1) == 0.0


# Of many intervals at 95 %, 95 % hold the truth


def share_that_covers(one: Callable[[np.random.Generator], bool]) -> float:
    chance = np.random.default_rng(7)
    return sum(one(chance) for _ in range(DRAWS)) / DRAWS


def test_intervals_cover_the_mean() -> None:
    def covers(chance: np.random.Generator) -> bool:
        mean, half_width = interval(chance.normal(100, 15, 5).tolist(), 0.95)
        return half_width is not None and abs(mean - 100) <= half_width

    assert 0.93 < share_that_covers(covers) < 0.97


def test_intervals_cover_the_deviation() -> None:
    def covers(chance: np.random.Generator) -> bool:
        _, low, high = bounds(deviation_interval(chance.normal(100, 15, 6), 0.95))
        assert low is not None
        assert high is not None
        return low <= 15 <= high

    assert 0.93 < share_that_covers(covers) < 0.97


def test_intervals_cover_the_ratio() -> None:
    def covers(chance: np.random.Generator) -> bool:
        a, b = chance.lognormal(2.0, 0.1, 5), chance.lognormal(2.5, 0.3, 7)
        ratio = ratio_interval(a.tolist(), b.tolist(), 0.95)
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        return ratio.low <= math.exp(0.5) <= ratio.high

    assert 0.93 < share_that_covers(covers) < 0.97


WINDOWS, TRIES = 300, 1000
WINDOW_RATE, MEAN = 50, 10.0


def courses(chance: np.random.Generator, correlation: float, windows: int = WINDOWS) -> NDArray[np.float64]:
    """AR(1) with mean 0 and deviation 1, stationary from its start: a row for each try, a column for each window."""
    rows = chance.normal(0, 1, (TRIES, windows))
    for window in range(1, windows):
        rows[:, window] = correlation * rows[:, window - 1] + math.sqrt(1 - correlation**2) * rows[:, window]
    return rows


def shares(totals: NDArray[np.float64], counts: NDArray[np.float64], truth: float) -> tuple[float, float]:
    """The share of intervals that cover the truth, and the share of tries that have one."""
    estimates = [batch_ratio(*windows).estimate for windows in zip(totals, counts, strict=True)]
    covers = [
        estimate.low <= truth <= estimate.high
        for estimate in estimates
        if estimate.low is not None and estimate.high is not None
    ]
    return sum(covers) / len(covers), len(covers) / TRIES


correlations = pytest.mark.parametrize("correlation", [0.0, 0.3, 0.5, 0.7])
seeds = pytest.mark.parametrize("seed", [1, 2])


@correlations
@seeds
def test_batches_cover_the_mean_of_response_times(correlation: float, seed: int) -> None:
    chance = np.random.default_rng(seed)
    means = MEAN * (1 + 0.3 * courses(chance, correlation))
    counts = chance.poisson(WINDOW_RATE, means.shape).astype(float)
    totals = counts * means + np.sqrt(counts) * chance.normal(0, MEAN / 2, means.shape)
    covering, with_interval = shares(totals, counts, MEAN)
    assert 0.92 <= covering <= 0.97
    assert with_interval > 0.99


@correlations
@seeds
def test_batches_cover_the_throughput(correlation: float, seed: int) -> None:
    chance = np.random.default_rng(seed)
    rates = WINDOW_RATE * np.maximum(1 + 0.25 * courses(chance, correlation), 0)
    answers = chance.poisson(rates).astype(float)
    covering, with_interval = shares(answers, np.ones_like(answers), WINDOW_RATE)
    assert 0.92 <= covering <= 0.97
    assert with_interval > 0.99


def test_batches_cover_where_raw_values_do_not() -> None:
    """Neighbours that depend on each other (AR(1), 0.9): as if independent, an interval is four times too narrow."""
    rows = courses(np.random.default_rng(7), 0.9, 1200)
    batched, with_interval = shares(rows, np.ones_like(rows), 0.0)
    raw = [abs(mean) <= (half_width or 0) for mean, half_width in map(interval, rows)]
    assert 0.90 < batched < 0.97
    assert with_interval > 0.98
    assert sum(raw) / TRIES < 0.6
