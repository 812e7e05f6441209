"""Least squares give back the model that made the data, and the figures that scipy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stafette.errors import InvalidRequest
from stafette.statistics.linear import fit, fit_interactions, fit_polynomial


@given(st.lists(st.floats(-100, 100), min_size=8, max_size=8))
def test_a_model_with_all_interactions_comes_back(values: list[float]) -> None:
    """Through every corner of a 2³ experiment: as many terms as runs, so there is no error to speak of."""
    c, t, s = (column.ravel() for column in np.meshgrid([1.0, 50.0], [10.0, 20.0], [1.0, 5.0]))
    terms = [np.ones(8), c, t, s, c * t, c * s, t * s, c * t * s]
    response = sum(value * term for value, term in zip(values, terms, strict=True))
    found = fit_interactions({"c": c, "t": t, "s": s}, response)
    assert [one.value for one in found.coefficients] == pytest.approx(values, abs=1e-6)
    assert [one.name for one in found.coefficients] == ["intercept", "c", "t", "s", "c:t", "c:s", "t:s", "c:t:s"]
    assert (found.freedom, found.f, found.error_deviation, found.coefficients[0].error) == (0, None, None, None)
    assert found.coefficient("s", "c").value == pytest.approx(values[5], abs=1e-6)
    assert found.at({"c": 1, "t": 10, "s": 5}) == pytest.approx(response[(c == 1) & (t == 10) & (s == 5)][0], abs=1e-5)


def test_a_line_is_that_of_scipy() -> None:
    chance = np.random.default_rng(4)
    clients = np.repeat([10.0, 20.0, 40.0, 80.0], 3)
    response = 5 + 0.7 * clients + chance.normal(0, 2, 12)
    found, wanted = fit_polynomial("clients", clients, response), stats.linregress(clients, response)
    intercept, slope = found.coefficients
    assert (intercept.value, slope.value) == pytest.approx((wanted.intercept, wanted.slope))
    assert (intercept.error, slope.error) == pytest.approx((wanted.intercept_stderr, wanted.stderr))
    reach = stats.t.ppf(0.975, 10) * wanted.stderr
    assert (slope.low, slope.high) == pytest.approx((wanted.slope - reach, wanted.slope + reach))
    assert found.r_squared == pytest.approx(wanted.rvalue**2)
    assert found.probability == pytest.approx(wanted.pvalue)
    assert found.f == pytest.approx((wanted.slope / wanted.stderr) ** 2)
    assert (found.terms, found.freedom) == (1, 10)
    assert sum(found.residuals) == pytest.approx(0, abs=1e-9)


def test_a_curve_and_a_line_through_zero() -> None:
    sizes = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    curve = fit_polynomial("n", sizes, 3 + 2 * sizes - sizes**2, degree=2)
    assert [one.name for one in curve.coefficients] == ["intercept", "n", "n^2"]
    assert [one.value for one in curve.coefficients] == pytest.approx([3, 2, -1])
    assert curve.at({"n": 10}) == pytest.approx(-77)
    line = fit_polynomial("n", sizes, [2.1, 3.9, 6.1, 7.9, 10.0], through_zero=True)
    assert [one.value for one in line.coefficients] == pytest.approx([110 / 55], abs=0.01)
    assert line.r_squared is not None
    assert line.r_squared > 0.999


def test_f_weighs_what_each_term_explains_with_what_is_left() -> None:
    sizes = np.arange(1.0, 13.0)
    found = fit_polynomial("n", sizes, 3 + sizes**2 + np.random.default_rng(4).normal(0, 9, 12), degree=3)
    assert found.r_squared is not None
    assert (found.terms, found.freedom) == (3, 8)
    assert found.f == pytest.approx(found.r_squared / 3 / ((1 - found.r_squared) / 8))
    assert found.probability == pytest.approx(stats.f.sf(found.f, 3, 8))


def test_intervals_cover_the_coefficients() -> None:
    chance = np.random.default_rng(7)
    load = np.repeat(np.arange(1.0, 6.0), 2)
    covered = 0
    for _ in range(1000):
        slope = fit_polynomial("load", load, 2 + 3 * load + chance.normal(0, 4, 10)).coefficient("load")
        assert slope.low is not None
        assert slope.high is not None
        covered += slope.low <= 3 <= slope.high
    assert 930 < covered < 970


def test_nothing_to_explain() -> None:
    found = fit_polynomial("n", [1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    assert found.r_squared is None
    assert found.coefficient("n").value == pytest.approx(0, abs=1e-12)


def test_fits_that_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="1 runs do not tell 2 terms apart"):
        fit_polynomial("n", [1.0], [1.0])
    with pytest.raises(InvalidRequest, match="b follows from the terms before it"):
        fit({"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]}, [1.0, 2.0, 3.0], [(), ("a",), ("b",)])
    with pytest.raises(InvalidRequest, match="n follows from the terms before it"):
        fit_polynomial("n", [7.0, 7.0, 7.0], [1.0, 2.0, 3.0])
    with pytest.raises(InvalidRequest, match="is not a number"):
        fit_polynomial("n", [1.0, 2.0, 3.0], [1.0, float("nan"), 3.0])
    with pytest.raises(InvalidRequest, match="2 responses for 3 runs"):
        fit_polynomial("n", [1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(InvalidRequest, match="a degree of 7"):
        fit_polynomial("n", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 7)
    with pytest.raises(InvalidRequest, match="differ in their number of runs"):
        fit_interactions({"a": [1.0], "b": [1.0, 2.0]}, [1.0])
    found = fit_polynomial("n", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    with pytest.raises(InvalidRequest, match="the model has no term m"):
        found.coefficient("m")
    with pytest.raises(InvalidRequest, match="the model needs n as well"):
        found.at({})
