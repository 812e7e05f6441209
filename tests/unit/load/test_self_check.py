"""Samples of how punctual a generator was."""

from __future__ import annotations

import pytest

from stafette.load.self_check import Reservoir


def test_samples_keep_exact_means_and_a_fair_share_for_the_percentile() -> None:
    few, many = Reservoir(), Reservoir(size=2000)
    few.add(3_000_000)
    assert few.spread().p99 == few.spread().max == 3.0
    for value in range(100_000):
        many.add(value * 1000)
    spread = many.spread()
    assert spread.mean == pytest.approx(49.9995)
    assert spread.max == pytest.approx(99.999)
    assert spread.p99 == pytest.approx(99.0, abs=1.5)
    assert Reservoir().spread().max == 0
