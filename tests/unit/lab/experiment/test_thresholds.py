"""Thresholds: what they accept, what they hold against a value, and how they are written again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.errors import InvalidRequest
from stafette.lab.experiment.thresholds import METRICS, Threshold
from stafette.runs import summary


@pytest.mark.parametrize(
    ("text", "below", "same", "above"),
    [
        ("< 50", True, False, False),
        ("<= 50", True, True, False),
        ("> 50", False, False, True),
        (">= 50", False, True, True),
        ("== 50", False, True, False),
    ],
)
def test_a_threshold_compares(text: str, below: bool, same: bool, above: bool) -> None:
    threshold = Threshold.parse(text)
    assert [threshold.holds(value) for value in (49.9, 50.0, 50.1)] == [below, same, above]


@pytest.mark.parametrize("text", [">= 0", "<= 1", "== 0"])
def test_nothing_measured_is_nothing_reached(text: str) -> None:
    assert not Threshold.parse(text).holds(None)
    assert not Threshold.parse(text).holds(math.nan)


@pytest.mark.parametrize(
    ("text", "written"),
    [(">=1000", ">= 1000"), ("  <  0.5 ", "< 0.5"), ("> -3", "> -3"), ("<= 1e3", "<= 1000"), ("< 10_000", "< 10000")],
)
def test_a_threshold_is_written_as_a_person_would(text: str, written: str) -> None:
    assert str(Threshold.parse(text)) == written


@given(st.sampled_from(["<", "<=", ">", ">=", "=="]), st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_written_can_be_read(comparison: str, number: float) -> None:
    threshold = Threshold(comparison, number)
    assert Threshold.parse(str(threshold)) == threshold


@pytest.mark.parametrize(
    "text", ["", "50", "<", "= 50", "=> 50", "< fifty", "< 5 ms", "< nan", "< inf", "< 1e999", 50, None]
)
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Threshold.parse(text)
    assert str(caught.value) == 'a threshold is one of < <= > >= == and a number, such as ">= 1000"'


def test_a_summary_tells_every_metric_and_no_other() -> None:
    assert list(summary.METRICS) == list(METRICS)


def test_every_metric_says_what_it_means() -> None:
    assert {"throughput", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "errors", "error_share"} == set(
        METRICS
    )
    assert all(meaning and not meaning.endswith(".") for meaning in METRICS.values())
