"""The law that made a curve is found again, and its intervals hold it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import Estimate
from stafette.statistics.scalability import Scalability, fit_scalability

LOADS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0])


def law(of_one: float, contention: float, coherence: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    curve: np.ndarray[tuple[int], np.dtype[np.float64]] = (
        of_one * LOADS / (1 + contention * (LOADS - 1) + coherence * LOADS * (LOADS - 1))
    )
    return curve


def values(found: Scalability) -> tuple[float, float, float]:
    return found.throughput_of_one.value, found.contention.value, found.coherence.value


@given(st.floats(0.01, 1e6), st.floats(0, 0.9), st.floats(0, 0.05))
def test_a_law_comes_back(of_one: float, contention: float, coherence: float) -> None:
    found = fit_scalability(LOADS, law(of_one, contention, coherence))
    assert found.throughput_of_one.value == pytest.approx(of_one, rel=1e-3)
    assert (found.contention.value, found.coherence.value) == pytest.approx((contention, coherence), abs=1e-3)
    assert [found.at(load) for load in LOADS] == pytest.approx(law(of_one, contention, coherence), rel=1e-3)


def test_the_peak() -> None:
    """λ 100, σ 0.1, κ 0.001: √(0.9/0.001) = 30, and X(30) = 3000/(1 + 2.9 + 0.87)."""
    found = fit_scalability(LOADS, law(100, 0.1, 0.001))
    assert found.peak == pytest.approx(30, rel=1e-4)
    assert found.limit == pytest.approx(3000 / 4.77, rel=1e-4)
    assert found.r_squared == pytest.approx(1)
    assert found.notes == ()
    assert "beyond the measured loads" in fit_scalability(LOADS, law(100, 0.1, 0.0001)).notes[0]


def test_laws_without_a_peak() -> None:
    def of(contention: float) -> Scalability:
        return Scalability(Estimate(100.0), Estimate(contention), Estimate(0.0), 1.0, (), ())

    assert of(0.1).peak is None
    assert of(0.1).limit == pytest.approx(1000)
    assert (of(0.0).peak, of(0.0).limit) == (None, None)
    rising = fit_scalability(LOADS, LOADS**1.05 * 10)  # better than linear: both are at their bound
    assert (rising.contention.value, rising.coherence.value, rising.peak) == (0, 0, None)
    assert "no coherence was found" in rising.notes[0]


@pytest.mark.parametrize(("contention", "coherence"), [(0.05, 0.001), (0.3, 0.01), (0.02, 0.0)])
def test_intervals_cover_the_parameters(contention: float, coherence: float) -> None:
    chance = np.random.default_rng(7)
    loads, curve = np.tile(LOADS, 2), np.tile(law(1000, contention, coherence), 2)
    covered = np.zeros(3)
    for _ in range(200):
        noisy = np.maximum(curve + chance.normal(0, 0.03 * curve.max(), 16), 1.0)
        found = fit_scalability(loads, noisy)
        for index, (estimate, truth) in enumerate(
            zip(
                (found.throughput_of_one, found.contention, found.coherence), (1000, contention, coherence), strict=True
            )
        ):
            assert estimate.low is not None
            assert estimate.high is not None
            covered[index] += estimate.low <= truth <= estimate.high
    assert ((covered > 180) & (covered <= 200)).all()


def test_as_many_loads_as_parameters_have_no_intervals() -> None:
    found = fit_scalability([1, 8, 64], law(100, 0.1, 0.001)[[0, 3, 7]])
    assert values(found) == pytest.approx((100, 0.1, 0.001), rel=1e-4)
    assert found.contention.low is None


def test_curves_that_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="2 different loads do not determine 3 parameters"):
        fit_scalability([1, 1, 2, 2], [1, 1, 2, 2])
    with pytest.raises(InvalidRequest, match="a load is below 1"):
        fit_scalability([0, 1, 2], [1, 2, 3])
    with pytest.raises(InvalidRequest, match="a throughput not above 0"):
        fit_scalability([1, 2, 3], [1, 2, 0])
    with pytest.raises(InvalidRequest, match="is not a number"):
        fit_scalability([1, 2, 3], [1, 2, float("inf")])
    with pytest.raises(InvalidRequest, match="3 loads and 2 throughputs"):
        fit_scalability([1, 2, 3], [1, 2])


@pytest.mark.parametrize("load", [4.0, 40.0])
def test_the_band_around_the_curve_covers_it(load: float) -> None:
    chance = np.random.default_rng(11)
    expected = 100 * load / (1 + 0.1 * (load - 1) + 0.001 * load * (load - 1))
    inside, trials = 0, 200
    for _ in range(trials):
        band = fit_scalability(LOADS, law(100, 0.1, 0.001) + chance.normal(0, 10, len(LOADS))).interval_at(load)
        assert band.low is not None
        assert band.high is not None
        inside += band.low <= expected <= band.high
    assert 0.9 <= inside / trials <= 0.99


def test_three_loads_leave_no_run_to_spare_for_a_band() -> None:
    assert fit_scalability(LOADS[:3], law(100, 0.1, 0.001)[:3]).interval_at(2).low is None
