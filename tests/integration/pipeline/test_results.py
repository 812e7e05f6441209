"""Summary, windows, shares and distribution against numpy on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from stafette.pipeline.transforms import counts

from stafette.pipeline import counting
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import ROWS
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES
from stafette.runs.window import Window
from tests.support import synthetic_runs
from tests.support.spark_frames import assert_no_python

SECOND = synthetic_runs.SECOND
BEGIN = synthetic_runs.BEGIN
SEVERAL = [f"made-0001/00{number}-x" for number in (1, 2)]
LIMITS_US = [1, 777, 1000, 1500, 2001, 5000, 123_456]


def spans(window_ns: int = SECOND, load_s: float = 7.3) -> list[RunTimes]:
    return [
        RunTimes(
            run,
            Window(begin, begin + int(load_s * SECOND)),
            Window(begin + 1_234_567_890, begin + 6 * SECOND + 5),
            window_ns,
        )
        for number, run in enumerate(SEVERAL)
        for begin in [BEGIN + number * 3_333_333_333]
    ]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Two runs that overlap in time, with response times from one microsecond to minutes, and ends beyond it."""
    chance = np.random.default_rng(5)
    parts = []
    for number, run in enumerate(SEVERAL):
        begin = BEGIN + number * 3_333_333_333
        rows = synthetic_runs.requests(6_000, seed=number, run=run, begin_ns=begin)
        size = len(rows)
        intended = begin + chance.integers(-SECOND // 2, 8 * SECOND, size)
        start = intended + chance.integers(0, 2_000_000, size)
        length = np.exp(chance.normal(np.log(2e6), 1.7, size)).astype(np.int64)
        length[:5] = [0, 999, 1000, 70 * SECOND, 600 * SECOND]
        columns = {"intended_ns": intended, "start_ns": start, "end_ns": start + length}
        for name, values in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
        parts.append(rows)
    return pa.concat_tables(parts).unify_dictionaries()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("rows") / "traces"
    synthetic_runs.write_traces(folder, table, file_rows=4_000)
    return spark.read.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder))


@pytest.fixture(scope="module")
def columns(table: pa.Table) -> dict[str, NDArray[Any]]:
    names = ("run", "tier", "operation", "outcome", "intended_ns", "start_ns", "end_ns", "bytes", "messages")
    return {name: np.array(table[name].to_pylist()) for name in names}


@pytest.fixture(scope="module")
def found(rows: DataFrame) -> counting.Tables:
    return counting.count(rows, spans(), LIMITS_US, 0.95)


def chosen(columns: Mapping[str, NDArray[Any]], row: Mapping[str, Any]) -> NDArray[np.bool_]:
    mine = (columns["run"] == row["run"]) & (columns["tier"] == row.get("tier", "client"))
    if row["operation"] == "all":
        return np.asarray(mine & np.isin(columns["outcome"], ["ok", "empty"]))
    return np.asarray(mine & (columns["operation"] == row["operation"]) & (columns["outcome"] == row["outcome"]))


def responses(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    begin = np.where(columns["tier"] == "client", columns["intended_ns"], columns["start_ns"])
    return np.asarray(columns["end_ns"] - begin)


def nearest_rank(values: NDArray[np.int64], thousandths: int) -> float:
    ordered = np.sort(values // 1000)
    return float(ordered[max(1, -(-thousandths * len(ordered) // 1000)) - 1]) / 1000


def test_summary_is_what_numpy_says(found: counting.Tables, columns: dict[str, NDArray[Any]]) -> None:
    times = {span.run: span.measured for span in spans()}
    listed = found.summary.to_pylist()
    assert {(row["operation"], row["outcome"]) for row in listed} >= {("send", "Overloaded"), ("all", "answered")}
    assert len(listed) == len({tuple(row[name] for name in counts.NAMES) for row in listed})
    for row in listed:
        time, mine = times[row["run"]], chosen(columns, row)
        begun = mine & (columns["intended_ns"] >= time.start_ns) & (columns["intended_ns"] < time.end_ns)
        ended = mine & (columns["end_ns"] >= time.start_ns) & (columns["end_ns"] < time.end_ns)
        values = responses(columns)[begun]
        assert row["count"] == len(values) > 1
        assert row["throughput_per_s"] == pytest.approx(
            ended.sum() / ((time.end_ns - time.start_ns) / SECOND), rel=1e-12
        )
        assert row["mean_ms"] == pytest.approx(values.mean() / 1e6, rel=1e-9)
        assert row["stddev_ms"] == pytest.approx(values.std(ddof=1) / 1e6, rel=1e-9)
        assert row["max_ms"] == values.max() / 1e6
        assert row["bytes"] == columns["bytes"][begun].sum()
        assert row["messages"] == columns["messages"][begun].sum()
        for name, thousandths in PERCENTILES.items():
            assert row[name] == nearest_rank(values, thousandths), (name, row)


def test_every_row_is_counted(rows: DataFrame, found: counting.Tables, table: pa.Table) -> None:
    assert found.rows == len(table) == rows.count()


def test_shares_are_what_numpy_says(found: counting.Tables, columns: dict[str, NDArray[Any]]) -> None:
    times = {span.run: span.measured for span in spans()}
    listed = found.shares.to_pylist()
    assert len(listed) == len(LIMITS_US) * found.summary.num_rows
    for row in listed:
        time, mine = times[row["run"]], chosen(columns, row)
        begun = mine & (columns["intended_ns"] >= time.start_ns) & (columns["intended_ns"] < time.end_ns)
        assert row["share"] == (responses(columns)[begun] < row["limit_ms"] * 1e6).mean(), row


@pytest.mark.parametrize("window_ns", [SECOND, 250_000_000, 3 * SECOND])
def test_windows_are_what_numpy_says(rows: DataFrame, columns: dict[str, NDArray[Any]], window_ns: int) -> None:
    cut = spans(window_ns)
    listed = counting.count(rows, cut, LIMITS_US, 0.95).windows.to_pylist()
    by_run = {span.run: span for span in cut}
    whole = [row for row in listed if row["operation"] == "all" and row["tier"] == "client"]
    assert len(whole) == 2 * -(-7_300_000_000 // window_ns)
    assert sum(row["count"] for row in listed if row["tier"] == "client" and row["operation"] != "all") == sum(
        ((columns["run"] == run) & (columns["tier"] == "client") & (columns["intended_ns"] >= span.load.start_ns)
         & (columns["intended_ns"] < span.load.start_ns + len(span.starts()) * window_ns)).sum()
        for run, span in by_run.items()
    )  # fmt: skip
    for row in listed:
        load = by_run[row["run"]].load.start_ns
        start = load + round(row["second"] * SECOND)
        mine = chosen(columns, row)
        values = responses(columns)[
            mine & (columns["intended_ns"] >= start) & (columns["intended_ns"] < start + window_ns)
        ]
        ended = mine & (columns["end_ns"] >= start) & (columns["end_ns"] < start + window_ns)
        assert row["seconds"] == pytest.approx(min(window_ns / SECOND, 7.3 - row["second"]))
        assert row["count"] == len(values)
        assert row["throughput_per_s"] == pytest.approx(ended.sum() / row["seconds"], rel=1e-12)
        if not len(values):
            assert row["mean_ms"] is row["p99_ms"] is row["max_ms"] is None
            continue
        assert row["mean_ms"] == pytest.approx(values.mean() / 1e6, rel=1e-9)
        assert row["max_ms"] == values.max() / 1e6
        for name, thousandths in WINDOW_PERCENTILES.items():
            assert row[name] == nearest_rank(values, thousandths)


def test_the_distribution_holds_every_response(found: counting.Tables, columns: dict[str, NDArray[Any]]) -> None:
    listed = found.distribution.to_pylist()
    bounds = sorted({row["bin_ms"] for row in listed})
    times = {span.run: span.measured for span in spans()}
    for run in SEVERAL:
        mine = [row for row in listed if row["run"] == run and row["operation"] == "all"]
        group = {"run": run, "operation": "all", "outcome": "answered"}
        inside = (columns["intended_ns"] >= times[run].start_ns) & (columns["intended_ns"] < times[run].end_ns)
        values = responses(columns)[chosen(columns, group) & inside]
        for row in mine:
            below = [bound for bound in bounds if bound > row["bin_ms"]]
            upper = below[0] if below else np.inf
            assert row["count"] == ((values // 1000 >= row["bin_ms"] * 1000) & (values // 1000 < upper * 1000)).sum()
        assert sum(row["count"] for row in mine) == len(values)


def test_names_that_a_sample_lacks_are_found(
    rows: DataFrame, found: counting.Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MANY_ROWS", 1)
    sampled = set(map(tuple, counts.names(rows, sampled=True).select(*counts.NAMES).collect()))
    again = counting.count(rows, spans(), LIMITS_US, 0.95)
    everything = {
        tuple(row[name] for name in counts.NAMES) for row in found.summary.to_pylist() if row["operation"] != "all"
    }
    assert everything - sampled, "the sample has all names: the test says nothing"
    assert again.summary.equals(found.summary)


def test_names_that_are_known_need_not_be_right(rows: DataFrame, found: counting.Tables) -> None:
    run, *_ = found.names[0]
    known = [*found.names[1:], (run, "client", "receive", "ok, but never seen")]
    again = counting.count(rows, spans(), LIMITS_US, 0.95, known)
    assert again.names == found.names
    assert again.summary.equals(found.summary)
    assert again.windows.equals(found.windows)


def test_no_python_runs_per_row(spark: SparkSession, rows: DataFrame) -> None:
    timed = spans()
    asked = spark.createDataFrame([(1, 1, 1)], "code long, window long, bin long")
    for frame in (
        counts.coarse(rows, timed, SECOND),
        counts.exact(rows, timed, SECOND, of_windows=asked, of_runs=asked.drop("window")),
        counts.names(rows),
    ):
        assert_no_python(frame)
