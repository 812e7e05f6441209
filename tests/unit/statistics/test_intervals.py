"""Intervals are those of the textbooks, and cover what they claim to."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import (
    Estimate,
    autocorrelation,
    batch_interval,
    batch_means,
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


def told(estimate: Estimate | None) -> tuple[float, float | None, float | None]:
    assert estimate is not None
    return estimate.value, estimate.low, estimate.high


def test_ratios_that_have_no_interval_or_do_not_exist() -> None:
    assert told(ratio_interval([2.0], [3.0, 3.0])) == pytest.approx((1.5, None, None))
    assert told(ratio_interval([2.0, 2.0], [3.0])) == pytest.approx((1.5, None, None))
    assert ratio_interval([0.0, 2.0], [3.0, 3.0]) is None
    assert ratio_interval([2.0, 2.0], [3.0, -3.0]) is None
    assert ratio_interval([], [3.0]) is None
    assert told(ratio_interval([2.0, 2.0], [3.0, 3.0])) == pytest.approx((1.5, 1.5, 1.5))


def test_wide_ratios_do_not_overflow() -> None:
    ratio = ratio_interval([1e-300, 1e300], [1e-300, 1e300])
    assert ratio is not None
    assert (ratio.low, ratio.high) == (0.0, math.inf)


def test_batches() -> None:
    assert batch_means([1, 2, 3, 4, 5, 6], 3) == [1.5, 3.5, 5.5]
    assert batch_means([99, 1, 2, 3, 4], 2) == [1.5, 3.5]  # what does not fill them is left out at the start
    assert len(batch_means(list(range(1000)))) == 20
    with pytest.raises(InvalidRequest, match="19 values do not fill 20 batches"):
        batch_means([1.0] * 19)
    with pytest.raises(InvalidRequest, match="at least 2 batches"):
        batch_means([1.0] * 19, 1)


def test_a_deviation_worked_by_hand() -> None:
    """s = 2 with n = 11: χ² of 10 degrees is 20.483 and 3.247 in any table."""
    found = deviation_interval_from(2.0, 11, 0.95)
    assert told(found) == pytest.approx((2.0, 2 * math.sqrt(10 / 20.483), 2 * math.sqrt(10 / 3.247)), rel=1e-4)


@given(values, levels)
def test_a_sample_and_its_summary_give_the_same_intervals(numbers: list[float], level: float) -> None:
    mean, deviation, count = float(np.mean(numbers)), float(np.std(numbers, ddof=1)), len(numbers)
    assert told(mean_interval(numbers, level)) == pytest.approx(told(mean_interval_from(mean, deviation, count, level)))
    found = deviation_interval(numbers, level)
    assert told(found) == pytest.approx(told(deviation_interval_from(deviation, count, level)))
    assert told(found)[0] == pytest.approx(deviation)


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


def test_batches_that_are_too_short_are_called_so() -> None:
    chance = np.random.default_rng(3)
    wave = np.repeat(chance.normal(0, 1, 10), 400)  # ten stretches of which each spans two batches
    noise = chance.normal(0, 1, 4000)
    assert not batch_interval(wave + noise / 10).independent
    found = batch_interval(noise)
    assert found.independent
    doubted = sum(not batch_interval(chance.normal(0, 1, 400)).independent for _ in range(500))
    assert 0.03 < doubted / 500 < 0.07
    assert (found.batches, found.size) == (20, 200)
    assert found.estimate == mean_interval(batch_means(noise))


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
        _, low, high = told(deviation_interval(chance.normal(100, 15, 6), 0.95))
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


def test_batch_means_cover_where_raw_values_do_not() -> None:
    """Neighbours that depend on each other (AR(1), 0.9): as if independent, an interval is four times too narrow."""

    def run(chance: np.random.Generator) -> list[float]:
        shocks = chance.normal(0, 1, 4000)
        level, course = shocks[0] / math.sqrt(1 - 0.9**2), []
        for shock in shocks:
            level = 0.9 * level + shock
            course.append(level)
        return course

    chance = np.random.default_rng(7)
    batched = raw = 0
    for _ in range(300):
        course = run(chance)
        for_batches, for_raw = interval(batch_means(course)), interval(course)
        assert for_batches[1] is not None
        assert for_raw[1] is not None
        batched += abs(for_batches[0]) <= for_batches[1]
        raw += abs(for_raw[0]) <= for_raw[1]
    assert 0.90 < batched / 300 < 0.98
    assert raw / 300 < 0.6
