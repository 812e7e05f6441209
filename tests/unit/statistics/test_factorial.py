"""Effects that were put into a table come out of it, with intervals that hold them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.errors import InvalidRequest
from stafette.statistics.factorial import Analysis, analyse, sign_table
from stafette.statistics.levels import MAX_FACTORS, Factor, factor_of
from stafette.statistics.linear import fit_interactions

A = [-1] * 3 + [1] * 3 + [-1] * 3 + [1] * 3
B = [-1] * 6 + [1] * 6
RESPONSES = [15, 18, 12, 45, 48, 51, 25, 28, 19, 75, 75, 81]
"""The 2²·3 example of Jain, The Art of Computer Systems Performance Analysis (1991), chapter 18."""


def bounds(analysis: Analysis, name: str) -> tuple[float, float]:
    effect = analysis.effect(name)
    assert effect.low is not None
    assert effect.high is not None
    return effect.low, effect.high


def test_the_textbook_example() -> None:
    """Intervals as printed there, at 90 %; they were cut after the second digit, not rounded."""
    found = analyse({"A": A, "B": B}, RESPONSES, level=0.9)
    assert {effect.name: effect.value for effect in found.effects} == {"mean": 41.0, "A": 21.5, "B": 9.5, "A:B": 5.0}
    shares = {effect.name: effect.share for effect in found.effects[1:]}
    assert shares == pytest.approx({"A": 78.88, "B": 15.40, "A:B": 4.27}, abs=0.005)
    assert found.error_share == pytest.approx(1.45, abs=0.005)
    assert found.error_deviation == pytest.approx(3.57, abs=0.005)
    assert found.freedom == 8
    printed = {"mean": (39.08, 42.91), "A": (19.58, 23.41), "B": (7.58, 11.41), "A:B": (3.08, 6.91)}
    for name, (low, high) in printed.items():
        assert bounds(found, name) == pytest.approx((low + 0.005, high + 0.005), abs=0.005)
        assert found.effect(name).matters
    assert found.residuals == (0, 3, -3, -3, 0, 3, 1, 4, -5, -2, -2, 4)
    assert found.notes == ()


def test_the_sign_table() -> None:
    subsets, table = sign_table(2)
    assert subsets == [(), (0,), (1,), (0, 1)]
    assert table.tolist() == [[1, -1, -1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, 1, 1, 1]]
    for factors in range(1, 6):
        _, table = sign_table(factors)
        wide = table.astype(int)
        assert (wide.T @ wide == 2**factors * np.eye(2**factors)).all()


effect_values = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))


@st.composite
def designs(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[float], int]:
    factors = draw(st.integers(1, 4))
    values = draw(st.lists(effect_values, min_size=2**factors, max_size=2**factors))
    return list(product((-1, 1), repeat=factors)), values, draw(st.integers(1, 4))


@given(designs(), st.randoms(use_true_random=False), st.booleans())
def test_effects_come_back(
    design: tuple[list[tuple[int, ...]], list[float], int], order: object, multiplicative: bool
) -> None:
    """Noise that cancels within each combination leaves the effects as they were; the order of runs is no matter."""
    rows, values, repetitions = design
    subsets, table = sign_table(len(rows[0]))
    scale = 1e-3 if multiplicative else 1.0
    effects = [value * scale for value in values]
    noise = np.linspace(-1, 1, repetitions) * scale if repetitions > 1 else np.zeros(1)
    runs = [
        (row, float(cell + off)) for row, cell in zip(rows, table @ np.array(effects), strict=True) for off in noise
    ]
    order.shuffle(runs)  # type: ignore[attr-defined]
    names = "ABCD"[: len(rows[0])]
    columns = {name: [row[place] for row, _ in runs] for place, name in enumerate(names)}
    responses = [math.exp(response) if multiplicative else response for _, response in runs]
    found = analyse(columns, responses, multiplicative=multiplicative)
    assert [effect.value for effect in found.effects] == pytest.approx(effects, abs=1e-8)
    assert [effect.name for effect in found.effects[1:]] == [":".join(names[i] for i in one) for one in subsets[1:]]
    shares = [effect.share or 0.0 for effect in found.effects]
    assert sum(shares) + found.error_share == pytest.approx(100 if np.ptp(responses) > 0 else 0)
    assert all((effect.matters is None) == (repetitions == 1) for effect in found.effects)
    if multiplicative:
        assert [effect.ratio for effect in found.effects] == pytest.approx([math.exp(value) for value in effects])


def test_shares_are_of_the_total_variation() -> None:
    found = analyse({"A": A, "B": B}, RESPONSES)
    total = float(np.var(RESPONSES) * len(RESPONSES))
    error = sum(residual**2 for residual in found.residuals)
    assert found.error_share == pytest.approx(100 * error / total)
    assert found.effect("A").share == pytest.approx(100 * 12 * 21.5**2 / total)


def test_unequal_repetitions_are_least_squares() -> None:
    """The same as a regression on the signs, whose F of each effect is the share over that of the error."""
    keep = [0, 1, 3, 4, 5, 6, 9, 10]
    a, b, responses = ([column[index] for index in keep] for column in (A, B, RESPONSES))
    found = analyse({"A": a, "B": b}, responses)
    fit = fit_interactions({"A": [float(x) for x in a], "B": [float(x) for x in b]}, responses)
    for effect, coefficient in zip(found.effects, fit.coefficients, strict=True):
        assert effect.value == pytest.approx(coefficient.value)
        assert (effect.low, effect.high) == pytest.approx((coefficient.low, coefficient.high))
        if effect.share is not None:
            assert coefficient.error is not None
            statistic = (coefficient.value / coefficient.error) ** 2
            assert effect.share / (found.error_share / found.freedom) == pytest.approx(statistic)
    assert sum(effect.share or 0 for effect in found.effects) + found.error_share == pytest.approx(100)
    assert "different numbers of repetitions" in found.notes[0]


def test_intervals_cover_the_effects() -> None:
    chance = np.random.default_rng(7)
    _, table = sign_table(2)
    effects = np.array([50.0, 3.0, 0.0, -1.0])
    columns = {"A": [-1, -1, 1, 1] * 3, "B": [-1, 1] * 6}
    covered = np.zeros(4)
    for _ in range(1000):
        found = analyse(columns, (np.tile(table @ effects, 3) + chance.normal(0, 5, 12)).tolist())
        covered += [low <= truth <= high for truth, (low, high) in zip(effects, all_bounds(found), strict=True)]
    assert ((covered > 930) & (covered < 970)).all()


def all_bounds(analysis: Analysis) -> list[tuple[float, float]]:
    return [bounds(analysis, effect.name) for effect in analysis.effects]


def test_a_product_has_no_interaction_on_logarithms() -> None:
    columns: dict[str, list[str | float]] = {"A": [1, 1, 2, 2], "B": ["x", "y", "x", "y"]}
    found = analyse(columns, [10, 30, 20, 60], multiplicative=True)
    assert found.effect("A:B").value == pytest.approx(0)
    assert found.effect("A").ratio == pytest.approx(math.sqrt(2))
    assert found.effect("B").ratio == pytest.approx(math.sqrt(3))
    assert found.effect("mean").ratio == pytest.approx(math.sqrt(600))
    assert analyse(columns, [10, 30, 20, 60]).effect("A:B").value == pytest.approx(5)


def test_nothing_varies() -> None:
    found = analyse({"A": [1, 2] * 6}, [0.1] * 12)
    assert found.effect("mean").value == 0.1
    assert found.effect("A") == type(found.effects[0])("A", 0.0, 0.0, 0.0, 0.0)
    assert found.notes == ("the response is the same in every run: there is no variation to explain",)


@pytest.mark.parametrize(
    ("levels", "low", "high"),
    [
        (["16", "8"], "8", "16"),
        (["1e3", "4"], "4", "1e3"),
        (["on", "off"], "off", "on"),
        (["16", "8x"], "16", "8x"),
        (["10", "inf"], "10", "inf"),
        (["1_0", "9"], "1_0", "9"),
        ([-1, -2.5], -2.5, -1),
        (["4", "4.0", "8"], "4", "8"),
    ],
)
def test_levels_sort_as_numbers_or_words(levels: list[str | float], low: str | float, high: str | float) -> None:
    factor, signs = factor_of("A", levels)
    assert factor == Factor("A", low, high)
    assert [factor.high if sign > 0 else factor.low for sign in signs] == [low if x == "4.0" else x for x in levels]


@pytest.mark.parametrize(
    ("columns", "responses", "sentence"),
    [
        ({}, [], "there is no factor"),
        ({"A": []}, [], "there is no run"),
        ({"A": [1, 1]}, [1, 2], r"column A has one level \(1\) in every row"),
        ({"A": [8, 4, 4, 16]}, [1, 2, 3, 4], r"column A has 3 levels \(4, 8, 16\), the third in run 4"),
        ({"A": [1, 2, 2], "B": ["x", "x", "y"]}, [1, 2, 3], "there is no run with A = 1, B = y; measure"),
        ({"A": [1, 2], "B": ["x", "y"]}, [1, 2], "there is no run with A = 1, B = y and 1 more"),
        ({"A": [1, 2]}, [1, math.nan], "the response in run 2 is nan"),
        ({"A": [1, 2]}, [1], "there are 1 responses for 2 runs"),
        ({"A": [1, 2], "B": [1]}, [1, 2], "differ in their number of runs"),
        ({"A:B": [1, 2]}, [1, 2], "cannot be named 'A:B'"),
        ({"mean": [1, 2]}, [1, 2], "cannot be named 'mean'"),
        ({"error": [1, 2]}, [1, 2], "cannot be named 'error'"),
        ({str(number): [1, 2] for number in range(MAX_FACTORS + 1)}, [1, 2], "are more than 10"),
    ],
)
def test_tables_that_are_refused(columns: dict[str, list[str | float]], responses: list[float], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        analyse(columns, responses)


def test_a_level_a_logarithm_and_an_effect_that_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="is not between 0 and 1"):
        analyse({"A": [1, 2]}, [1, 2], level=95)
    with pytest.raises(InvalidRequest, match="the response in run 2 is 0, which has no logarithm"):
        analyse({"A": [1, 2]}, [1, 0], multiplicative=True)
    with pytest.raises(InvalidRequest, match="there is no effect B; there are mean, A"):
        analyse({"A": [1, 2]}, [1, 2]).effect("B")
