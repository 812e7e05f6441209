"""A trend is seen when there is one, and not more often than promised when there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stafette.errors import InvalidRequest
from stafette.statistics.stationarity import trend
from tests.support.correlated_series import fading


@pytest.mark.parametrize(
    ("windows", "correlation", "most"),
    [(30, 0.0, 0.07), (30, 0.3, 0.10), (30, 0.6, 0.13), (120, 0.3, 0.08), (120, 0.6, 0.08), (1000, 0.6, 0.08)],
)
def test_chance_passes_for_a_trend_hardly_more_often_than_promised(
    windows: int, correlation: float, most: float
) -> None:
    """At 5 %; a short series that is much alike cannot tell how much, and errs up to twice as often."""
    chance = np.random.default_rng(11)
    seen = sum(trend(100 + fading(chance, windows, correlation)).probability < 0.05 for _ in range(400))
    assert 0.01 < seen / 400 < most


def test_a_trend_is_seen_and_measured() -> None:
    chance = np.random.default_rng(11)
    for sign, word in ((1, "rises"), (-1, "falls")):
        found = trend(100 + sign * np.linspace(-10, 10, 60) + 2 * fading(chance, 60, 0.3))
        assert not found.stationary
        assert found.probability < 0.001
        assert found.change == pytest.approx(sign * 0.2, abs=0.03)
        assert found.verdict.startswith(f"not stationary: it {word} by ")


def test_one_slow_window_is_no_trend() -> None:
    windows = 100 + np.random.default_rng(11).normal(0, 1, 40)
    windows[-1] = 2000
    assert trend(windows).stationary
    assert abs(trend(windows).change) < 0.02


def test_a_trend_too_small_to_matter_passes() -> None:
    windows = 100 + np.linspace(0, 1, 100) + np.random.default_rng(11).normal(0, 0.1, 100)
    found = trend(windows)
    assert found.probability < 0.001
    assert found.stationary
    assert found.verdict.startswith("stationary enough: it rises by only 1.0%")
    assert not trend(windows, relevant=0.005).stationary


def test_a_trend_that_cannot_be_told_is_said_to_be_possible() -> None:
    found = trend([100, 130, 90, 140, 80, 120, 100, 150, 95, 135])
    assert found.stationary
    assert "no trend can be told from chance" in found.verdict


def test_independent_windows_give_kendall_s_probability() -> None:
    """Without correlation it is the classical test; scipy's tau of the same series with the index is the reference."""
    chance = np.random.default_rng(2)
    close = 0
    for _ in range(40):
        windows = chance.normal(0, 1, 150)
        wanted = stats.kendalltau(np.arange(150), windows, method="asymptotic").pvalue
        close += abs(trend(windows).probability - wanted) < 0.1
    assert close > 30


def test_no_variation_and_long_series() -> None:
    assert trend([5.0] * 20).verdict == "stationary: there is no trend"
    assert trend([0.0] * 20).stationary
    ties = trend([1.0, 1.0, 2.0, 2.0] * 10)
    assert ties.stationary
    assert trend(np.linspace(1, 2, 7200)).change == pytest.approx(2 / 3, rel=0.01)


def test_too_few_windows_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="9 windows are too few"):
        trend([1.0] * 9)
    with pytest.raises(InvalidRequest, match="is not between 0 and 1"):
        trend([1.0] * 10, level=95)
