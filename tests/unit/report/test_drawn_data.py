"""Every figure draws its table's numbers: read back from Plotly, they equal the rows, no point more and none less.

Expected points come from the rows by the shortest way. A point is panel, trace, x and y; an error bar is a point at
each of its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from stafette.report import figures
from tests.support import sample_tables as sample

RUN = "ftab-1-0001/001-single-r1"
SWEEP, DESIGN = "asl15-clients", "mlmq-2k"
Point = tuple[str, str, Any, Any]
Rows = list[dict[str, Any]]
ALL_SERIES = ("send", "receive", "peek", "receive (empty)", "all operations")
PHASE_LABELS = {
    "client_queue": "client: wait for a connection", "client_encode": "client: encode", "network": "network and rest",
    "read": "broker: read", "decode": "broker: decode", "queue": "broker: wait for the database",
    "database": "database", "parked": "parked: wait for a message", "encode": "broker: encode",
    "client_read": "client: read",
}  # fmt: skip
"""Of all phases but the broker's write, which is not stacked."""
RESPONSE_NAMES = {"mean_ms": "mean", "p50_ms": "median", "p95_ms": "p95", "p99_ms": "p99"}
MODEL_NAMES = {"mva": "mean value analysis", "usl": "Universal Scalability Law", "bounds": "asymptotic bounds"}


def name_of(row: dict[str, Any]) -> str:
    operation = "all operations" if row["operation"] == "all" else row["operation"]
    return operation if row["outcome"] in {"ok", "answered"} else f"{operation} ({row['outcome']})"


def is_whole(row: dict[str, Any]) -> bool:
    return (row["operation"], row["outcome"]) == ("all", "answered")


def with_bounds(panel: str, name: str, row: dict[str, Any], x: float) -> Iterator[Point]:
    """The mean of a row, and the ends of its interval."""
    for column in ("mean", "low", "high"):
        yield panel, name, x, row[column]


# What each maker draws, by its name


def throughput_over_time(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["windows"].to_pylist():
        yield "y", name_of(row), row["second"] + row["seconds"] / 2, row["throughput_per_s"]


def response_time_over_time(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["windows"].to_pylist():
        if not is_whole(row):
            index = ALL_SERIES.index(name_of(row))
            for column in ("p50_ms", "p95_ms", "p99_ms"):
                x = row["second"] + row["seconds"] / 2
                yield f"y{index + 1 if index else ''}", RESPONSE_NAMES[column], x, row[column]


def phases_over_time(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["phase_windows"].to_pylist():
        if row["phase"] in PHASE_LABELS:
            yield "y", PHASE_LABELS[row["phase"]], row["second"] + 0.5, row["mean_ms"]


def queue_lengths(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["queues"].to_pylist():
        yield "y", row["queue"], row["second"], row["messages"]


def processor_time(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["costs"].to_pylist():
        yield "y", row["process"], row["second"], row["cpu_share"]


def breakdown(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["breakdown"].to_pylist():
        yield from _breakdown_bar(row, ALL_SERIES.index(name_of(row)), [row])


def breakdown_by_point(tables: sample.Tables) -> Iterator[Point]:
    labels = {entry["run"]: entry["label"] for entry in sample.two_k()[1]["runs"]}
    rows = [r for r in tables["breakdown"].to_pylist() if (r["operation"], r["outcome"]) == ("send", "ok")]
    for index, label in enumerate(dict.fromkeys(labels.values())):
        repetitions = [row for row in rows if labels[row["run"]] == label]
        yield from _breakdown_bar(repetitions[0], index, repetitions)


def _breakdown_bar(row: dict[str, Any], index: int, repetitions: Rows) -> Iterator[Point]:
    """A bar of means over repetitions; its length is the response time."""
    for phase, label in PHASE_LABELS.items():
        column = "unexplained_ms" if phase == "network" else f"{phase}_ms"
        if phase != "parked":  # nobody waited
            yield "y", label, sum(each[column] for each in repetitions) / len(repetitions), index
    yield "y", "None", row["client_ms"], index


def distribution(tables: sample.Tables) -> Iterator[Point]:
    groups: dict[str, Rows] = {}
    for row in tables["distribution"].to_pylist():
        groups.setdefault(name_of(row), []).append(row)
    for name, rows in groups.items():
        rows.sort(key=lambda row: row["low_ms"])
        total, below = sum(row["count"] for row in rows), 0
        yield "y2", name, rows[0]["low_ms"], 0.0
        for row in rows:
            below += row["count"]
            yield "y", name, row["low_ms"], 100 * row["count"] / total
            yield "y2", name, row["high_ms"], 100 * below / total
        yield "y", name, rows[-1]["high_ms"], 0.0


def share_below_limits(tables: sample.Tables) -> Iterator[Point]:
    for row in tables["shares"].to_pylist():
        if row["limit_ms"] <= 100:  # within which all are answered
            yield "y", name_of(row), f"{row['limit_ms']:g} ms", 100 * row["share"]


def scaling_curve(tables: sample.Tables) -> Iterator[Point]:
    for row in filter(is_whole, tables["curves"].to_pylist()):
        if row["metric"] == "throughput":
            yield from with_bounds("y", "throughput", row, float(row["level"]))
        elif row["metric"] in RESPONSE_NAMES:
            yield from with_bounds("y2", RESPONSE_NAMES[row["metric"]], row, float(row["level"]))


def curves_by_operation(tables: sample.Tables) -> Iterator[Point]:
    rows = [r for r in tables["curves"].to_pylist() if (r["factor"], r["metric"]) == ("size", "mean_ms")]
    families = list(dict.fromkeys(row["other_levels"] for row in rows))
    for row in rows:
        if not is_whole(row):
            index = families.index(row["other_levels"])
            yield from with_bounds(f"y{index + 1 if index else ''}", name_of(row), row, float(row["level"]))


def effects(tables: sample.Tables) -> Iterator[Point]:
    rows = [row for row in _effect_rows(tables) if is_whole(row)]
    rows.sort(key=lambda row: -abs(row["value"]))
    for index, row in enumerate(rows):
        for column in ("value", "low", "high"):
            yield "y", "None", row[column], index


def effects_by_operation(tables: sample.Tables) -> Iterator[Point]:
    """Each operation has its own height in the row of an effect."""
    rows = [row for row in _effect_rows(tables) if not is_whole(row)]
    order = sorted(dict.fromkeys(row["effect"] for row in rows), key=lambda name: -_highest(rows, name))
    for row in rows:
        offset = {"send": -0.175, "receive": 0.175}[row["operation"]]
        for column in ("value", "low", "high"):
            yield "y", name_of(row), row[column], order.index(row["effect"]) + offset


def _effect_rows(tables: sample.Tables) -> Rows:
    rows = tables["effects"].to_pylist()
    return [row for row in rows if row["metric"] == "throughput" and row["effect"] not in {"mean", "error"}]


def _highest(rows: Rows, effect: str) -> float:
    return float(max(abs(row["value"]) for row in rows if row["effect"] == effect))


def variation(tables: sample.Tables) -> Iterator[Point]:
    rows = [row for row in _share_rows(tables) if is_whole(row)]
    rows.sort(key=lambda row: (row["effect"] == "error", -row["variation_percent"]))
    for index, row in enumerate(rows):
        yield "y", "None", row["variation_percent"], index


def variation_by_operation(tables: sample.Tables) -> Iterator[Point]:
    order = [effect for effect, _ in sorted(sample.EFFECTS.items(), key=lambda entry: -abs(entry[1]))]
    names = {letter: name for letter, (name, _) in sample.FACTORS.items()}
    words = [":".join(names.get(letter, letter) for letter in effect.split(":")) for effect in order]
    words = [*(word for word in words if word != "mean"), "error"]
    for row in _share_rows(tables):
        if not is_whole(row):
            yield "y", name_of(row), row["variation_percent"], words.index(row["effect"])


def _share_rows(tables: sample.Tables) -> Rows:
    rows = tables["effects"].to_pylist()
    return [row for row in rows if row["metric"] == "throughput" and row["effect"] != "mean"]


def predicted_and_measured(tables: sample.Tables) -> Iterator[Point]:
    measured = set()
    for row in tables["models"].to_pylist():
        panel = {"throughput": "y", "mean_ms": "y2"}[row["metric"]]
        for column in ("predicted", "low", "high"):
            if row[column] is not None:
                yield panel, MODEL_NAMES[row["model"]], row["x"], row[column]
        measured.add((panel, "measured", row["x"], row["measured"]))
    yield from measured


# Reading back


def drawn_points(figure: Any) -> Iterator[Point]:
    for trace in figure.data:
        if list(trace.x) == [None]:
            continue  # an entry of the legend
        panel, name = trace.yaxis or "y", str(trace.name)
        for index, (x, y) in enumerate(zip(trace.x, trace.y, strict=True)):
            if y is None or (trace.type == "scatter" and trace.line.shape == "hv" and _is_gap(trace, index)):
                continue
            yield panel, name, x, y
            if trace.type == "scatter" and trace.error_y.array is not None:
                yield panel, name, x, y - trace.error_y.arrayminus[index]
                yield panel, name, x, y + trace.error_y.array[index]
            if trace.type == "scatter" and trace.error_x.array is not None:
                yield panel, name, x - trace.error_x.arrayminus[index], y
                yield panel, name, x + trace.error_x.array[index], y


def _is_gap(trace: Any, index: int) -> bool:
    """Whether a step at 0 only ends a bin: the next bin has an edge of its own."""
    return bool(trace.y[index] == 0 and index < len(trace.y) - 1)


def unmatched(points: Iterable[Point], others: Iterable[Point]) -> list[Point]:
    """Points without a partner among the others that is equal up to the five digits that a figure has."""
    rest: dict[tuple[str, str], list[Point]] = {}
    for other in others:
        rest.setdefault(other[:2], []).append(other)
    lonely = []
    for point in points:
        candidates = rest.get(point[:2], [])
        partner = next((other for other in candidates if all(map(_equal, point[2:], other[2:]))), None)
        if partner is None:
            lonely.append(point)
        else:
            candidates.remove(partner)
    return lonely


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, str) or isinstance(other, str):
        return bool(value == other)
    return math.isclose(value, other, rel_tol=2e-4, abs_tol=1e-6)


FIGURES: dict[Callable[[sample.Tables], Iterator[Point]], tuple[Callable[[], Any], tuple[Any, ...]]] = {
    **dict.fromkeys(
        (throughput_over_time, response_time_over_time, phases_over_time, queue_lengths, processor_time, breakdown,
         distribution, share_below_limits),
        (sample.single, (RUN,)),
    ),
    breakdown_by_point: (sample.two_k, (figures.run_metadata(*sample.two_k()), "send", "ok")),
    scaling_curve: (sample.sweep, (SWEEP, "clients")),
    curves_by_operation: (sample.two_k, (DESIGN, "size", "mean_ms")),
    **dict.fromkeys(
        (effects, effects_by_operation, variation, variation_by_operation), (sample.two_k, (DESIGN, "throughput"))
    ),
    predicted_and_measured: (sample.sweep, (SWEEP,)),
}  # fmt: skip
"""What a figure is to draw, with the tables and the arguments of its maker, which has the same name."""
NOT_MAKERS = {"DARK", "RunMetadata", "Stages", "run_metadata"}


def test_every_maker_of_figures_is_checked() -> None:
    assert {expected.__name__ for expected in FIGURES} == set(figures.__all__) - NOT_MAKERS


@pytest.mark.parametrize("expected", FIGURES, ids=lambda expected: expected.__name__)
def test_a_figure_draws_the_numbers_of_its_table(expected: Callable[[sample.Tables], Iterator[Point]]) -> None:
    make_tables, arguments = FIGURES[expected]
    tables, _ = make_tables()

    points = list(drawn_points(getattr(figures, expected.__name__)(tables, *arguments)))

    wanted = list(expected(tables))
    assert len(wanted) > 6
    assert unmatched(points, wanted) == []
    assert unmatched(wanted, points) == []


def test_a_panel_is_titled_by_the_levels_that_its_points_have() -> None:
    figure: Any = figures.curves_by_operation(sample.two_k()[0], DESIGN, "size", "mean_ms")
    titles = [axis.title.text.partition("<br>")[0] for axis in figure.select_yaxes()]
    assert titles == [f"brokers {brokers}, connections {n}" for brokers in (1, 2) for n in (8, 32)]


def test_a_phase_that_some_requests_pass_counts_for_all() -> None:
    rows = [
        {"run": RUN, "phase": phase, "second": 0.0, "count": count, "mean_ms": mean}
        for phase, count, mean in (("network", 100, 2.0), ("parked", 25, 40.0))
    ]
    figure: Any = figures.phases_over_time({"phase_windows": sample.table("phase_windows", rows)}, RUN)
    assert {trace.name: list(trace.y) for trace in figure.data} == {
        "network and rest": [2.0], "parked: wait for a message": [10.0],
    }  # fmt: skip
