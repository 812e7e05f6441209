"""The start is cut where it differs, and only there; a run that never settles is said to."""

from __future__ import annotations

import numpy as np
import pytest

from stafette.statistics.warm_up import mser5
from tests.support.correlated_series import fading


def brute_force(values: list[float]) -> int:
    """The definition, cut by cut."""
    batches = [sum(values[start : start + 5]) / 5 for start in range(0, len(values) // 5 * 5, 5)]
    tried = len(batches) - max(5, len(batches) // 5) + 1
    return 5 * min(range(tried), key=lambda cut: np.var(batches[cut:]) / len(batches[cut:]))


def test_it_is_the_definition() -> None:
    chance = np.random.default_rng(5)
    cuts = 0
    for _ in range(50):
        values = (1000 + 3 * np.exp(-np.arange(203) / 12) + chance.normal(0, 0.3, 203)).tolist()
        found = mser5(values)
        if found.settled:
            assert found.index == brute_force(values)
            cuts += found.index > 0
        else:
            assert brute_force(values) >= 100
    assert cuts > 25


def test_a_jump_at_the_start_is_cut_exactly() -> None:
    chance = np.random.default_rng(5)
    found = mser5(np.where(np.arange(400) < 60, 30.0, 10.0) + chance.normal(0, 0.1, 400))
    assert (found.index, found.settled) == (60, True)
    assert found.reason == "the first 15% of the run are unlike the rest and are cut"


def test_a_settled_run_is_left_alone_mostly() -> None:
    chance = np.random.default_rng(5)
    found = [mser5(fading(chance, 300, 0.5)) for _ in range(100)]
    assert sum(not one.settled for one in found) <= 3
    assert np.mean([one.index for one in found]) < 15
    assert mser5([7.0] * 300) == mser5([0.1] * 300)
    assert (mser5([7.0] * 300).index, mser5([7.0] * 300).settled) == (0, True)


@pytest.mark.parametrize("shape", ["step", "line"])
def test_more_than_half_is_never_cut(shape: str) -> None:
    time = np.arange(600) / 600
    course = np.where(time < 0.6, 0.0, 5.0) if shape == "step" else 20 * time
    found = mser5(course + np.random.default_rng(5).normal(0, 1, 600))
    assert (found.index, found.settled) == (0, False)
    assert "let it run for longer" in found.reason


def test_too_few_values_say_so() -> None:
    assert mser5([1.0] * 50).settled
    found = mser5([1.0] * 49)
    assert (found.index, found.settled) == (0, False)
    assert found.reason.startswith("49 values are too few")
