"""Summary, shares, windows and distribution, from traces to tables, against numpy on the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from stafette.pipeline import requests, results, run_checks, run_tables, times
from stafette.pipeline.run_tables import Group, Names, Series
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import ROWS
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES
from stafette.runs.moments import mean_ms, stddev_ms
from stafette.runs.window import Window
from tests.support import synthetic_runs
from tests.support.spark_frames import assert_no_python

SECOND = synthetic_runs.SECOND
BEGIN = synthetic_runs.BEGIN
SEVERAL = [f"made-0001/00{number}-x" for number in (1, 2)]
LIMITS_US = [1, 777, 1000, 1500, 2001, 5000, 123_456]
LOAD_NS = 7_300_000_000
GROUP = ("run", "tier", "operation", "outcome")
SUCCESSES = ("ok", "empty", "answered")

Columns = dict[str, NDArray[Any]]


def spans(window_ns: int = SECOND) -> dict[str, RunTimes]:
    """Two runs that overlap in time; their measured windows begin and end within a window."""
    begins = {run: BEGIN + number * 3_333_333_333 for number, run in enumerate(SEVERAL)}
    return {
        run: RunTimes(
            run, Window(begin, begin + LOAD_NS), Window(begin + 1_234_567_890, begin + 6 * SECOND + 5), window_ns
        )
        for run, begin in begins.items()
    }


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Response times from one nanosecond to minutes; some requests begin before the load, and many end after it."""
    chance = np.random.default_rng(5)
    parts = []
    for number, (run, span) in enumerate(spans().items()):
        rows = synthetic_runs.requests(6_000, seed=number, run=run, begin_ns=span.load.start_ns)
        size = len(rows)
        intended = span.load.start_ns + chance.integers(-SECOND // 2, 8 * SECOND, size)
        start = intended + chance.integers(0, 2_000_000, size)
        length = np.exp(chance.normal(np.log(2e6), 1.7, size)).astype(np.int64)
        length[:5] = [0, 999, 1000, 70 * SECOND, 600 * SECOND]
        columns = {"intended_ns": intended, "start_ns": start, "end_ns": start + length}
        for name, values in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
        parts.append(rows)
    return pa.concat_tables(parts).unify_dictionaries()


@pytest.fixture(scope="module")
def columns(table: pa.Table) -> Columns:
    own = ("run", "tier", "operation", "outcome", "intended_ns", "start_ns", "end_ns", "bytes", "messages")
    chosen = {name: np.array(table[name].to_pylist()) for name in own}
    begin = np.where(chosen["tier"] == "client", chosen["intended_ns"], chosen["start_ns"])
    return chosen | {"begin_ns": begin, "response_ns": chosen["end_ns"] - begin}


class Frames:
    """The requests of the traces, and what is aggregated of them."""

    def __init__(self, spark: SparkSession, traces: DataFrame) -> None:
        self.requests = requests.of_traces(traces).persist()
        named = requests.names_of(traces).persist()
        self.groups = results.group_names(named).persist()
        self.names = Names(
            {row["run_code"]: row["run"] for row in named.collect()},
            {row["code"]: (row["tier"], row["operation"], row["outcome"]) for row in self.groups.collect()},
        )
        self.run_times = times.frame(spark, list(spans().values()))
        self.rows = results.by_tier(self.requests)
        self.measured = results.measured_counts(self.rows, self.run_times, self.groups).persist()

    def windows(self, window_ns: int, *, as_if_ns: int | None = None) -> DataFrame:
        """Windows of a length; computed as those of another, if that is given."""
        run_times = times.frame(self.requests.sparkSession, list(spans(window_ns).values()))
        return results.windows(self.rows, run_times, self.groups, as_if_ns or window_ns)

    def series(self, window_ns: int, *, as_if_ns: int | None = None) -> dict[Group, Series]:
        """The same of each group."""
        aggregated = self.windows(window_ns, as_if_ns=as_if_ns).toArrow()
        return run_tables.series(aggregated, self.names, spans(window_ns))


@pytest.fixture(scope="module")
def frames(spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    folder = tmp_path_factory.mktemp("rows") / "traces"
    synthetic_runs.write_traces(folder, table, file_rows=4_000)
    return Frames(spark, spark.read.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder)))


@pytest.fixture(scope="module")
def figures(frames: Frames) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results.summary(frames.measured, LIMITS_US).toArrow().to_pylist()
    return rows


@pytest.fixture(scope="module")
def summary(frames: Frames, figures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = frames.series(SECOND)
    trends = run_checks.trends(run_checks.stationary(list(spans().values()), groups))
    rows: list[dict[str, Any]] = run_tables.summary(figures, groups, frames.names, spans(), trends, 0.95).to_pylist()
    return rows


def of_group(columns: Columns, row: Mapping[str, Any]) -> NDArray[np.bool_]:
    """The rows that a row of a table is about."""
    tier = (columns["run"] == row["run"]) & (columns["tier"] == row.get("tier", "client"))
    if row["operation"] == "all":
        return np.asarray(tier & np.isin(columns["outcome"], ["ok", "empty"]))
    return np.asarray(tier & (columns["operation"] == row["operation"]) & (columns["outcome"] == row["outcome"]))


def inside(moments: NDArray[np.int64], span: Window) -> NDArray[np.bool_]:
    return np.asarray((moments >= span.start_ns) & (moments < span.end_ns))


def nearest_rank(values: NDArray[np.int64], thousandths: int) -> float:
    ordered = np.sort(values // 1000)
    return float(ordered[max(1, -(-thousandths * len(ordered) // 1000)) - 1]) / 1000


def exact_sums(values: NDArray[np.int64]) -> tuple[int, int, int]:
    """Count, sum and sum of squares, in Python's whole numbers."""
    whole = [int(value) for value in values]
    return len(whole), sum(whole), sum(value * value for value in whole)


def groups_of(columns: Columns) -> set[tuple[str, ...]]:
    own = set(zip(*(columns[name].tolist() for name in GROUP), strict=True))
    return own | {(run, tier, "all", "answered") for run, tier, _, outcome in own if outcome in SUCCESSES}


def test_the_summary_is_what_numpy_says(summary: list[dict[str, Any]], columns: Columns) -> None:
    assert [tuple(row[name] for name in GROUP) for row in summary] == sorted(groups_of(columns))
    for row in summary:
        span, group = spans()[row["run"]].measured, of_group(columns, row)
        begun = group & inside(columns["begin_ns"], span)
        answers = (group & inside(columns["end_ns"], span)).sum()
        values = columns["response_ns"][begun]
        count, total, squares = exact_sums(values)
        assert row["count"] == count > 1
        assert row["throughput_per_s"] == answers / span.seconds
        assert (row["mean_ms"], row["stddev_ms"]) == (mean_ms(count, total), stddev_ms(count, total, squares))
        assert row["max_ms"] == values.max() / 1e6
        assert row["bytes"] == columns["bytes"][begun].sum()
        assert row["messages"] == columns["messages"][begun].sum()
        for name, thousandths in PERCENTILES.items():
            assert row[name] == nearest_rank(values, thousandths), (name, row)


def test_a_group_that_only_ended_in_the_measured_window_has_no_figures_but_a_throughput(frames: Frames) -> None:
    groups = frames.series(SECOND)
    trends: dict[tuple[str, str], str] = {}

    rows = run_tables.summary([], groups, frames.names, spans(), trends, 0.95).to_pylist()

    assert {tuple(row[name] for name in GROUP) for row in rows} == {tuple(group) for group in groups}
    assert all(row["count"] == 0 and row["p50_ms"] is None and row["throughput_per_s"] > 0 for row in rows)


def test_shares_are_what_numpy_says(frames: Frames, figures: list[dict[str, Any]], columns: Columns) -> None:
    rows = run_tables.shares(figures, frames.names, LIMITS_US).to_pylist()

    assert len(rows) == len(LIMITS_US) * len(groups_of(columns))
    for row in rows:
        begun = of_group(columns, row) & inside(columns["begin_ns"], spans()[row["run"]].measured)
        assert row["share"] == (columns["response_ns"][begun] < row["limit_ms"] * 1e6).mean(), row


SORTED, COUNTED = results.SORTED_WINDOW_NS, results.SORTED_WINDOW_NS + 1


@pytest.mark.parametrize(
    ("window_ns", "as_if_ns"),
    [(SECOND, SORTED), (250_000_000, SORTED), (3 * SECOND, SORTED), (SECOND, COUNTED), (3 * SECOND, COUNTED)],
    ids=lambda value: "counted" if value == COUNTED else "sorted" if value == SORTED else f"{value / SECOND:g}s",
)
def test_windows_are_what_numpy_says(frames: Frames, columns: Columns, window_ns: int, as_if_ns: int) -> None:
    cut = spans(window_ns)

    rows = run_tables.windows(frames.series(window_ns, as_if_ns=as_if_ns), cut).to_pylist()

    count = -(-LOAD_NS // window_ns)
    by_group: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        by_group.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    assert by_group.keys() == groups_of(columns)
    for group, windows in by_group.items():
        seconds = [row["second"] for row in windows]
        assert seconds == sorted(set(seconds))
        if group[-1] in SUCCESSES:
            assert seconds == [number * window_ns / SECOND for number in range(count)]
        of = of_group(columns, windows[0])
        load = cut[group[0]].load
        assert sum(row["count"] for row in windows) == (of & inside(columns["begin_ns"], load)).sum()
        for row in windows:
            _compare(row, of, columns, cut[group[0]])


def _compare(row: Mapping[str, Any], of: NDArray[np.bool_], columns: Columns, span: RunTimes) -> None:
    start = span.load.start_ns + round(row["second"] * SECOND)
    window = Window(start, min(start + span.window_ns, span.load.end_ns))
    begun, ended = of & inside(columns["begin_ns"], window), of & inside(columns["end_ns"], window)
    values = columns["response_ns"][begun]
    measured = begun & inside(columns["begin_ns"], span.measured)
    assert row["seconds"] == window.seconds
    assert row["count"] == len(values)
    assert row["throughput_per_s"] == ended.sum() / window.seconds
    assert row["measured_count"] == measured.sum()
    assert row["measured_total_ms"] == int(columns["response_ns"][measured].sum()) / 1e6
    assert row["measured_answers"] == (ended & inside(columns["end_ns"], span.measured)).sum()
    first, last = max(window.start_ns, span.measured.start_ns), min(window.end_ns, span.measured.end_ns)
    assert row["measured_seconds"] == max(last - first, 0) / SECOND
    if not len(values):
        assert row["mean_ms"] is row["p99_ms"] is row["max_ms"] is None
        return
    assert row["mean_ms"] == mean_ms(len(values), int(values.sum()))
    assert row["max_ms"] == values.max() / 1e6
    for name, thousandths in WINDOW_PERCENTILES.items():
        assert row[name] == nearest_rank(values, thousandths)


def test_values_of_short_windows_are_sorted_and_those_of_long_ones_are_counted(frames: Frames) -> None:
    plans = [frames.windows(length)._jdf.queryExecution().toString() for length in (SORTED, COUNTED)]

    assert ["collect_list" in plan for plan in plans] == [True, False]
    assert ["rows between" in plan.lower() or "windowspec" in plan.lower() for plan in plans] == [False, True]


def test_the_distribution_holds_every_response(frames: Frames, columns: Columns) -> None:
    bins = results.distribution(frames.measured).toArrow().to_pylist()

    rows = run_tables.distribution(bins, frames.names).to_pylist()

    by_group: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        by_group.setdefault((row["run"], row["operation"], row["outcome"]), []).append(row)
    assert by_group.keys() == {(run, *rest) for run, tier, *rest in groups_of(columns) if tier == "client"}
    for (run, *_), parts in by_group.items():
        begun = of_group(columns, parts[0]) & inside(columns["begin_ns"], spans()[run].measured)
        us = columns["response_ns"][begun] // 1000
        assert [row["low_ms"] for row in parts] == sorted({row["low_ms"] for row in parts})
        for row, after in itertools.pairwise(parts):
            assert row["high_ms"] <= after["low_ms"]
        for row in parts:
            assert row["count"] == ((us >= row["low_ms"] * 1000) & (us < row["high_ms"] * 1000)).sum() > 0
        assert sum(row["count"] for row in parts) == len(us)


def test_the_distribution_is_of_brokers_where_there_are_no_clients(frames: Frames) -> None:
    bins = results.distribution(frames.measured).toArrow().to_pylist()
    clients = {code for code, (tier, *_) in frames.names.codes.items() if tier == "client"}
    alone = {code for code, run in frames.names.runs.items() if run == SEVERAL[0]}

    without_clients = [row for row in bins if not (row["run_code"] in alone and row["code"] in clients)]
    rows = run_tables.distribution(without_clients, frames.names).to_pylist()

    expected = {True: "broker", False: "client"}
    for run in SEVERAL:
        tier = expected[run == SEVERAL[0]]
        count = sum(row["count"] for row in bins if _names(frames, row) == (run, tier))
        assert sum(row["count"] for row in rows if row["run"] == run) == count > 0


def _names(frames: Frames, row: Mapping[str, Any]) -> tuple[str, str]:
    return frames.names.runs[row["run_code"]], frames.names.codes[row["code"]][0]


def test_an_analysis_of_nothing_gives_tables_without_rows(spark: SparkSession) -> None:
    empty = Frames(spark, spark.createDataFrame([], StructType(ROWS.fields)))

    assert results.summary(empty.measured, LIMITS_US).collect() == []
    assert empty.series(SECOND) == empty.series(SECOND, as_if_ns=COUNTED) == {}
    assert run_tables.windows({}, spans()).num_rows == 0
    assert results.tiers(empty.requests, empty.run_times).collect() == []


def test_no_python_runs_per_row(frames: Frames) -> None:
    aggregated: Sequence[DataFrame] = (
        frames.requests,
        results.summary(frames.measured, LIMITS_US),
        results.distribution(frames.measured),
        frames.windows(SORTED),
        frames.windows(COUNTED),
        results.tiers(frames.requests, frames.run_times),
        results.phases(frames.requests, frames.run_times),
    )
    for frame in aggregated:
        assert_no_python(frame)
