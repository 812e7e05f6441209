"""Figures show what the tables say: the right lines, with the right values, told apart without colour."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pyarrow as pa
import pytest

from stafette.report import figures
from stafette.report.figures import style
from stafette.report.figures.table_rows import RunMetadata, Stages, run_metadata, select
from tests.support import sample_tables as sample

RUN = "ftab-1-0001/001-single-r1"


@pytest.fixture(scope="module")
def single() -> sample.Tables:
    return sample.single()[0]


@pytest.fixture(scope="module")
def sweep() -> tuple[sample.Tables, list[RunMetadata]]:
    tables, facts = sample.sweep()
    return tables, run_metadata(tables, facts)


@pytest.fixture(scope="module")
def two_k() -> sample.Tables:
    return sample.two_k()[0]


def drawn(figure: Any) -> dict[str, Any]:
    """Traces that have points, by name; the others are entries of the legend."""
    return {trace.name: trace for trace in figure.data if trace.x is not None and list(trace.x) != [None]}


def stages() -> Stages:
    tables, facts = sample.single()
    return run_metadata(tables, facts)[0].stages(tables)


def test_stages_come_from_the_window_and_from_mser_5() -> None:
    assert stages() == Stages(50.0, 5.0, 45.0, 3.0)


def test_throughput_has_a_line_per_operation_with_the_windows_values(single: sample.Tables) -> None:
    lines = drawn(figures.throughput_over_time(single, RUN, stages()))

    assert list(lines) == ["send", "receive", "peek", "receive (empty)", "all operations"]
    rows = select(single, "windows", run=RUN, operation="send", tier="client")
    assert list(lines["send"].y) == pytest.approx([row["throughput_per_s"] for row in rows], rel=1e-4)
    assert lines["send"].x[0] == 0.5  # the middle of the first second


def test_what_is_not_counted_is_shaded_and_mser_5_marked(single: sample.Tables) -> None:
    figure: Any = figures.response_time_over_time(single, RUN, stages())

    shades = {(shape.x0, shape.x1) for shape in figure.layout.shapes if shape.type == "rect"}
    marks = [shape.x0 for shape in figure.layout.shapes if shape.type == "line"]
    assert shades == {(0.0, 5.0), (45.0, 50.0)}
    assert marks == [3.0] * 4  # one in each panel
    legend = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert "warm-up and cool-down, not measured" in legend
    assert "MSER-5: steady from 3 s" in legend


def test_response_time_has_median_and_bands_per_operation(single: sample.Tables) -> None:
    figure: Any = figures.response_time_over_time(single, RUN)

    first = [trace for trace in figure.data if trace.yaxis in (None, "y") and trace.x != (None,)]
    row = select(single, "windows", run=RUN, operation="send", tier="client")[7]
    assert [trace.name for trace in first] == ["median", "p95", "p99"]
    assert [trace.y[7] for trace in first] == pytest.approx([row["p50_ms"], row["p95_ms"], row["p99_ms"]], rel=1e-4)
    assert [trace.fill for trace in first] == [None, "tonexty", "tonexty"]
    assert [axis.title.text for axis in figure.select_yaxes()] == [
        "send<br>ms", "receive<br>ms", "peek<br>ms", "receive (empty)<br>ms",
    ]  # fmt: skip


def test_a_stall_survives_when_windows_are_put_together(single: sample.Tables) -> None:
    rows = select(single, "windows", run=RUN)
    stalled = next(row for row in rows if row["operation"] == "send" and row["second"] == 31.0)
    stalled["p99_ms"] = 900.0
    tables = {"windows": sample.table("windows", rows)}

    figure: Any = figures.response_time_over_time(tables, RUN, points=10)
    p99 = next(trace for trace in figure.data if trace.name == "p99")
    assert len(p99.y) == 10
    assert 900.0 in p99.y
    assert figure.layout.yaxis.type == "log"
    throughput = drawn(figures.throughput_over_time(tables, RUN, points=10))["send"]
    whole = sum(row["throughput_per_s"] for row in rows if row["operation"] == "send")
    assert sum(throughput.y) * 5 == pytest.approx(whole, rel=1e-3)


def test_breakdown_bars_add_up_to_the_response_time(single: sample.Tables) -> None:
    figure: Any = figures.breakdown(single, RUN)

    bars = [trace for trace in figure.data if trace.type == "bar"]
    for place, name in enumerate(figure.layout.yaxis.ticktext):
        operation = name.split(" ")[0]
        outcome = "empty" if "empty" in name else "ok"
        (row,) = select(single, "breakdown", run=RUN, operation=operation, outcome=outcome)
        assert sum(bar.x[place] for bar in bars) == pytest.approx(row["client_ms"], rel=1e-4)
    assert [bar.name for bar in bars][-2:] == ["broker: encode", "client: read"]  # its write overlaps the network
    assert "parked: wait for a message" not in [bar.name for bar in bars]  # nobody waited


def test_a_negative_rest_does_not_draw_backwards(single: sample.Tables) -> None:
    rows = [{**row, "unexplained_ms": -0.2} for row in select(single, "breakdown", run=RUN)]
    figure: Any = figures.breakdown({"breakdown": sample.table("breakdown", rows)}, RUN)
    assert all(value >= 0 for trace in figure.data if trace.type == "bar" for value in trace.x)


def test_points_with_long_names_stay_apart(two_k: sample.Tables) -> None:
    runs = run_metadata(*sample.two_k())
    figure: Any = figures.breakdown_by_point(two_k, runs, "send", "ok")
    assert len(figure.layout.yaxis.tickvals) == 8
    assert all(len(trace.x) == 8 for trace in figure.data)


def test_distribution_sums_to_all_requests(single: sample.Tables) -> None:
    figure: Any = figures.distribution(single, RUN)

    bins, below = (next(t for t in figure.data if t.name == "send" and t.yaxis == axis) for axis in ("y", "y2"))
    assert sum(bins.y) == pytest.approx(100, abs=0.1)
    assert below.y[0] == 0
    assert below.y[-1] == 100
    half = next(edge for edge, share in zip(below.x, below.y, strict=True) if share >= 50)
    assert half == pytest.approx(8.0, rel=0.26)  # a bin is 26 % wide
    assert figure.layout.xaxis2.type == "log"


def test_bins_without_requests_are_drawn_as_such() -> None:
    rows = [
        {"run": "r", "operation": "send", "outcome": "ok", "low_ms": low, "high_ms": high, "count": count}
        for low, high, count in ((0.0, 1.0, 10), (1.0, 1.5, 10), (16.0, 32.0, 20))
    ]
    figure: Any = figures.distribution({"distribution": sample.table("distribution", rows)}, "r")
    assert list(figure.data[0].x) == [0.5, 1.0, 1.5, 16.0, 32.0]  # 0 is not on a logarithmic axis
    assert list(figure.data[0].y) == [25.0, 25.0, 0.0, 50.0, 0.0]
    assert list(figure.data[1].x) == [0.5, 1.0, 1.5, 16.0, 32.0]
    assert list(figure.data[1].y) == [0.0, 25.0, 50.0, 50.0, 100.0]


def test_share_below_limits(single: sample.Tables) -> None:
    lines = drawn(figures.share_below_limits(single, RUN))
    send = dict(zip(lines["send"].x, lines["send"].y, strict=True))
    assert send["10 ms"] == pytest.approx(100 * sample._normal(math.log(10 / 8) / sample.SIGMA), rel=1e-4)
    assert "1,000 ms" not in send  # all were answered long before


def test_queues_beyond_the_first_are_one_line(sweep: tuple[sample.Tables, list[RunMetadata]]) -> None:
    tables, runs = sweep
    lines = drawn(figures.queue_lengths(tables, runs[-1].run))

    assert len(lines) == 8
    others = lines["the other 5 together"]
    named = [f"q{place}" for place in range(5)]
    first = [row for row in select(tables, "queues", run=runs[-1].run) if row["second"] == 0]
    assert others.y[0] == sum(row["messages"] for row in first if row["queue"] in named)


def test_processor_time_is_in_cores(single: sample.Tables) -> None:
    figure: Any = figures.processor_time(single, RUN, stages())
    assert list(drawn(figure)) == ["broker-1", "load-1", "postgres"]
    assert figure.layout.yaxis.title.text == "processor time (cores)"


def test_a_curve_has_intervals_as_error_bars(sweep: tuple[sample.Tables, list[RunMetadata]]) -> None:
    figure: Any = figures.scaling_curve(sweep[0], "asl15-clients", "clients")

    throughput = figure.data[0]
    values = [1920 * sample.capacity(clients)[0] for clients in sample.SWEEP_CLIENTS]
    assert list(throughput.x) == list(sample.SWEEP_CLIENTS)
    assert list(throughput.y) == pytest.approx(values, rel=1e-4)
    assert list(throughput.error_y.array) == pytest.approx([0.05 * value for value in values], rel=1e-3)
    assert [trace.name for trace in figure.data[1:]] == ["mean", "median", "p95", "p99"]
    assert figure.layout.xaxis.type == "log"
    assert list(figure.layout.xaxis.ticktext) == ["1", "2", "4", "8", "16", "32", "64"]


def test_one_run_per_point_has_no_error_bars_and_words_are_levels() -> None:
    rows = [
        {"experiment": "e", "factor": "order", "level": level, "other_levels": other, "metric": metric, "mean": 5.0,
         "operation": "all", "outcome": "answered", "stddev": None, "low": None, "high": None}
        for level, other, metric in itertools.product(("fifo", "priority"), ('{"size": 1}', '{"size": 2}'),
                                                      ("throughput", "mean_ms"))
    ]  # fmt: skip
    figure: Any = figures.scaling_curve({"curves": sample.table("curves", rows)}, "e", "order")
    assert all(trace.error_y.array is None for trace in figure.data)
    assert {trace.name for trace in figure.data} == {"size 1", "size 2"}
    assert figure.layout.xaxis.type == "category"
    assert len({(trace.line.dash, trace.marker.symbol) for trace in figure.data}) == 2


def test_models_lie_beside_the_measurements(sweep: tuple[sample.Tables, list[RunMetadata]]) -> None:
    figure: Any = figures.predicted_and_measured(sweep[0], "asl15-clients")

    measured = next(trace for trace in figure.data if trace.name == "measured")
    assert list(measured.y) == pytest.approx([1920 * sample.capacity(c)[0] for c in sample.SWEEP_CLIENTS], rel=1e-4)
    assert {trace.name for trace in figure.data} == {
        "measured", "mean value analysis", "Universal Scalability Law", "asymptotic bounds",
    }  # fmt: skip
    band = [trace for trace in figure.data if trace.name == "Universal Scalability Law" and trace.fill == "tonexty"]
    assert len(band) == 1
    assert sum(trace.showlegend is not False for trace in figure.data) == 4


def test_effects_are_ordered_and_those_that_may_be_none_are_hollow(two_k: sample.Tables) -> None:
    figure: Any = figures.effects(two_k, "mlmq-2k", "throughput")

    (points,) = figure.data
    assert list(points.x) == [21.5, 9.5, 5.0, -0.3, 0.2, -0.1, 0.1]
    assert list(figure.layout.yaxis.ticktext)[:3] == ["brokers", "connections", "brokers:connections"]
    assert list(points.marker.symbol) == ["circle"] * 3 + ["circle-open"] * 4
    assert list(points.error_x.array) == pytest.approx([1.0] * 7)


def test_variation_shows_chance_last_and_apart(two_k: sample.Tables) -> None:
    figure: Any = figures.variation(two_k, "mlmq-2k", "throughput")

    (bars,) = figure.data
    assert sum(bars.x) == pytest.approx(100, abs=0.01)
    assert figure.layout.yaxis.ticktext[-1] == "error"
    assert bars.x[-1] == 2.0
    assert bars.marker.pattern.shape[-1] != bars.marker.pattern.shape[0]


@pytest.mark.parametrize("name", ["throughput_over_time", "response_time_over_time", "queue_lengths", "processor_time",
                                  "phases_over_time", "breakdown", "distribution", "share_below_limits"])  # fmt: skip
def test_nothing_to_show_is_no_figure(name: str) -> None:
    assert getattr(figures, name)({}, RUN) is None
    assert getattr(figures, name)({"windows": sample.table("windows", [])}, RUN) is None


def test_an_operation_looks_the_same_everywhere_and_unlike_the_others(single: sample.Tables) -> None:
    for figure in (figures.throughput_over_time(single, RUN), figures.share_below_limits(single, RUN)):
        assert drawn(figure)["receive"].line.color == style.VERMILION
        assert drawn(figure)["receive"].line.dash == "dash"
    known = [(look.dash, look.symbol) for look in style.OPERATIONS.values() if look is not style.OPERATIONS["all"]]
    assert len(set(known)) == len(known)  # without colour, too
    phases = [(phase.colour, phase.pattern) for phase in style.PHASES]
    assert len(set(phases)) == len(phases)
    assert style.line_style("browse") == style.line_style("browse")


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lines_stand_out_on_light_and_dark_pages() -> None:
    looks = [*style.OPERATIONS.values(), *style.SEQUENCE]
    for colour in {look.colour for look in looks}:
        assert contrast(colour, style.PAPER) >= 3, colour
        assert contrast(style.DARK[colour], style.DARK[style.PAPER]) >= 3, colour
    assert contrast(style.INK, style.PAPER) >= 7


def test_names_from_the_data_cannot_be_markup() -> None:
    tables, _ = sample.hostile()
    for draw in (figures.queue_lengths, figures.throughput_over_time, figures.breakdown):
        figure: Any = draw(tables, sample.HOSTILE)
        assert "<script" not in json.dumps(figure.to_plotly_json(), default=list)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (12345.6, "12,346"), (8.2345, "8.23"), (82.345, "82.3"), (0.01234, "0.0123"),
     (-3.456, "−3.46"), (10.0, "10"), (1234567, "1,234,567"), (float("nan"), "–"), (0.00000123, "1.23e−06"),
     (999.7, "1,000"), (True, "yes")],
)  # fmt: skip
def test_numbers_have_three_digits_that_matter(value: Any, text: str) -> None:
    assert style.number(value) == text


def test_tables_may_have_a_run_that_the_facts_do_not_know() -> None:
    tables, _ = sample.single()
    (run,) = run_metadata(tables, {})
    assert (run.run, run.title, run.valid) == (RUN, RUN, None)
    assert isinstance(tables["summary"], pa.Table)
