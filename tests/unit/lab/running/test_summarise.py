"""The figures of a window are those that a slow and simple count gives."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stafette.errors import InvalidRequest
from stafette.lab.experiment import thresholds
from stafette.lab.running.summarise import per_second, summarise
from stafette.runs.summary import METRICS, Figures, Summary
from stafette.runs.window import Window
from tests.support.run_traces import MILLISECOND, SECOND, Row, run_of

WINDOW = Window(10 * SECOND, 20 * SECOND)


def row(intended: float, length: float, operation: str = "send", outcome: str = "ok", messages: int = 1) -> Row:
    """Times in seconds."""
    start = round(intended * SECOND)
    return Row("alice-1", 1, operation, outcome, start, start, start + round(length * SECOND), messages)


@st.composite
def runs(draw: st.DrawFn) -> list[Row]:
    moment = st.integers(8 * SECOND, 22 * SECOND) | st.sampled_from([10 * SECOND, 20 * SECOND])
    rows = draw(
        st.lists(
            st.builds(
                Row,
                client=st.sampled_from(["alice-1", "bob-1"]),
                operation=st.sampled_from(["send", "receive", "ack", "lease", "echo"]),
                outcome=st.sampled_from(["ok", "empty", "Overloaded", "Lost"]),
                intended_ns=moment,
                end_ns=moment,
                messages=st.integers(0, 5),
            ),
            min_size=1,
            max_size=60,
        )
    )
    return [replace(row, start_ns=row.intended_ns, end_ns=max(row.intended_ns, row.end_ns)) for row in rows]


def nearest_rank(values: list[float], share: Fraction) -> float:
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def naive_figures(rows: list[Row], window: Window) -> Figures:
    times = [
        (row.end_ns - row.intended_ns) / MILLISECOND
        for row in rows
        if window.start_ns <= row.intended_ns < window.end_ns
    ]
    throughput = sum(window.start_ns <= row.end_ns < window.end_ns for row in rows) / window.seconds
    if not times:
        return Figures(0, throughput)
    whole = [math.floor(time * 1000 + 1e-6) / 1000 for time in times]
    ranked = [nearest_rank(whole, Fraction(share)) for share in ("0.5", "0.9", "0.95", "0.99", "0.999")] + [max(times)]
    spread = statistics.stdev(times) if len(times) > 1 else None
    return Figures(len(times), throughput, statistics.fmean(times), spread, *ranked)


def assert_alike(found: Figures, wanted: Figures) -> None:
    for name, value in msgspec.structs.asdict(wanted).items():
        assert getattr(found, name) == (value if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)), name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(made_up=runs())
def test_a_summary_is_what_a_simple_count_gives(made_up: list[Row], tmp_path: Path) -> None:
    summary = summarise(run_of(tmp_path / "traces", made_up), WINDOW)

    good = [row for row in made_up if row.outcome in ("ok", "empty")]
    assert_alike(summary.overall, naive_figures(good, WINDOW))
    parts = {
        kind: figures
        for kind in {(row.operation, row.outcome) for row in made_up}
        if (figures := naive_figures([row for row in made_up if (row.operation, row.outcome) == kind], WINDOW))
        != Figures(0, 0.0)
    }
    assert [(part.operation, part.outcome) for part in summary.parts] == sorted(parts)
    for part in summary.parts:
        assert_alike(part.figures, parts[part.operation, part.outcome])

    begun = [row for row in made_up if WINDOW.start_ns <= row.intended_ns < WINDOW.end_ns]
    errors = [row for row in begun if row not in good]
    assert (summary.requests, summary.errors) == (len(begun), len(errors))
    assert summary.error_share == (len(errors) / len(begun) if begun else 0.0)
    moved = {
        operation: sum(
            row.messages
            for row in made_up
            if (row.operation, row.outcome) == (operation, "ok") and WINDOW.start_ns <= row.end_ns < WINDOW.end_ns
        )
        for operation in ("send", "receive", "ack")
    }
    assert summary.messages_sent_per_s == pytest.approx(moved["send"] / 10)
    assert summary.messages_received_per_s == pytest.approx((moved["receive"] + moved["ack"]) / 10)
    under_way = sum(max(0, min(row.end_ns, WINDOW.end_ns) - max(row.intended_ns, WINDOW.start_ns)) for row in made_up)
    assert summary.mean_in_flight == pytest.approx(under_way / (10 * SECOND))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(made_up=runs(), length=st.integers(1, 12 * SECOND))
def test_seconds_are_what_a_simple_count_gives(made_up: list[Row], length: int, tmp_path: Path) -> None:
    load = Window(9 * SECOND, 9 * SECOND + length)
    course = per_second(run_of(tmp_path / "traces", made_up), load)

    assert course.seconds == list(range(math.ceil(length / SECOND)))
    for second in course.seconds:
        start = load.start_ns + second * SECOND
        window = Window(start, min(start + SECOND, load.end_ns))
        good = naive_figures([row for row in made_up if row.outcome in ("ok", "empty")], window)
        bad = naive_figures([row for row in made_up if row.outcome not in ("ok", "empty")], window)
        assert course.throughput[second] == pytest.approx(good.throughput_per_s)
        assert course.mean_ms[second] == (good.mean_ms if good.mean_ms is None else pytest.approx(good.mean_ms))
        assert course.p99_ms[second] == (good.p99_ms if good.p99_ms is None else pytest.approx(good.p99_ms))
        assert course.errors[second] == bad.count


def test_the_window_has_its_start_but_not_its_end(tmp_path: Path) -> None:
    edges = [row(9.999, 0.001), row(10, 0), row(19.5, 0.5), row(20, 0)]
    summary = summarise(run_of(tmp_path, edges), WINDOW)
    assert summary.overall.count == 2  # by their intended start: the second and the third
    assert summary.overall.throughput_per_s == 0.2  # by their end: the first, which ends at 10, and the second
    assert summary.overall.max_ms == 500.0


def test_response_times_count_from_the_intended_start(tmp_path: Path) -> None:
    late = replace(row(11, 0.003), start_ns=round(11.002 * SECOND))
    assert summarise(run_of(tmp_path, [late]), WINDOW).metric("mean_ms") == 3.0


def test_errors_are_not_in_the_overall_figures(tmp_path: Path) -> None:
    made_up = [
        row(11, 0.010),
        row(12, 0.030, "receive", "empty"),
        row(13, 9.0, outcome="TooLate"),
        row(14, 0.001, outcome="Overloaded"),
    ]
    summary = summarise(run_of(tmp_path, made_up), WINDOW)
    assert {name: summary.metric(name) for name in METRICS} == {
        "throughput": 0.2, "mean_ms": 20.0, "p50_ms": 10.0, "p90_ms": 30.0, "p95_ms": 30.0, "p99_ms": 30.0,
        "max_ms": 30.0, "errors": 2.0, "error_share": 0.5,
    }  # fmt: skip


def test_littles_law_gives_the_requests_under_way(tmp_path: Path) -> None:
    steady = [row(5 + number / 10, 2.0) for number in range(200)]
    assert summarise(run_of(tmp_path, steady), WINDOW).mean_in_flight == pytest.approx(20.0)  # 10 per second, 2 s each


def test_a_window_without_requests_has_no_times(tmp_path: Path) -> None:
    summary = summarise(run_of(tmp_path, [row(1, 1)]), WINDOW)
    assert summary.overall == Figures(0, 0.0)
    assert summary.parts == []
    assert (summary.metric("p99_ms"), summary.metric("throughput"), summary.metric("error_share")) == (None, 0.0, 0.0)


def test_a_last_second_that_is_cut_short_counts_as_what_it_is(tmp_path: Path) -> None:
    rows = run_of(tmp_path, [row(number / 10, 0.0) for number in range(100)])
    course = per_second(rows, Window(0, 2 * SECOND + SECOND // 2))
    assert course.throughput == pytest.approx([10.0, 10.0, 10.0])


def test_thresholds_ask_for_what_there_is() -> None:
    assert list(METRICS) == list(thresholds.METRICS)


def test_a_metric_that_does_not_exist(tmp_path: Path) -> None:
    summary = summarise(run_of(tmp_path, [row(11, 1)]), WINDOW)
    with pytest.raises(InvalidRequest, match="there is no metric p42_ms; the metrics are throughput, mean_ms"):
        summary.metric("p42_ms")


def test_a_summary_survives_as_json(tmp_path: Path) -> None:
    summary = summarise(run_of(tmp_path, [row(11, 1), row(12, 0.5, outcome="Overloaded")]), WINDOW)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary
