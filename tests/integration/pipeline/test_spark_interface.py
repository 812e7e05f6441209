"""`stafette.spark`: the same figures as an analysis, as DataFrames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import stafette.spark
from stafette.errors import InvalidRequest
from stafette.pipeline import job
from stafette.pipeline.job import Analysis
from stafette.pipeline.options import Options
from stafette.pipeline.sources import readers
from stafette.spark import request_frames
from tests.support.spark_frames import analyzed_runs, assert_no_python
from tests.support.synthetic_runs import make_run, requests

GROUP = ("run", "tier", "operation", "outcome")
RUNS = [f"made-0001/{number:03d}-single-r{number}" for number in (1, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with requests that one tier alone knows."""
    folder = tmp_path_factory.mktemp("interface")
    for seed, run in enumerate(RUNS):
        rows = requests(4_000, seed=seed, run=run, never_sent=0.01, lost=0.01)
        make_run(folder / run.replace("/", "/runs/"), rows, run=run)
    return folder


@pytest.fixture(scope="module")
def analysis(spark: SparkSession, folder: Path) -> Analysis:
    return analyzed_runs(spark, folder)


@pytest.fixture(scope="module")
def frame(spark: SparkSession, folder: Path) -> DataFrame:
    return stafette.spark.requests(spark, folder)


def by_key(rows: Sequence[dict[str, Any]], key: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[name] for name in key): row for row in rows}


def assert_same(frame: DataFrame, expected: Sequence[dict[str, Any]], key: Sequence[str]) -> None:
    """The rows of a frame are those expected, of which they may lack columns."""
    rows = by_key([row.asDict() for row in frame.collect()], key)
    others = by_key(expected, key)
    assert rows.keys() == others.keys()
    for name, row in rows.items():
        for column, value in row.items():
            other = others[name][column]
            same = isclose(value, other, rel_tol=1e-9) if isinstance(value, float) else value == other
            assert same, (name, column, value, other)


def test_requests_have_all_rows_with_their_names(frame: DataFrame, analysis: Analysis) -> None:
    assert frame.schema == stafette.spark.REQUESTS
    joins = analysis.tables["joins"].to_pylist()
    assert frame.where("client_code is not null and broker_code is not null").count() == sum(
        row["joined"] for row in joins
    )
    assert frame.where("broker_operation is null").count() == sum(
        row["client_only"] + row["never_sent"] for row in joins
    )
    assert frame.where("operation = 'send' and broker_operation != 'send'").count() == 0
    assert frame.where("batch is not null").count() > 0


def test_traces_have_the_rows_of_all_tiers(spark: SparkSession, folder: Path, analysis: Analysis) -> None:
    traces = stafette.spark.traces(spark, folder)
    assert traces.schema.fieldNames() == stafette.spark.TRACES.fieldNames()
    assert traces.count() == analysis.facts["rows"]


def test_the_summary_is_that_of_an_analysis(frame: DataFrame, analysis: Analysis) -> None:
    summary = stafette.spark.summary(frame)
    assert_same(summary, analysis.tables["summary"].to_pylist(), GROUP)
    assert_no_python(summary)


def test_the_deviation_of_large_sums(spark: SparkSession) -> None:
    count, total = 5_000_000, 5_000_000 * 10_000_000 + 4_999_999
    squares = total**2 // count + 10**18
    columns = "total_ns long, count long, squares decimal(38,0)"
    sums = spark.createDataFrame([(total, count, Decimal(squares))], columns)
    [[deviation]] = sums.select(request_frames._deviation()).collect()
    assert deviation == pytest.approx(math.sqrt(10**18 / (count - 1)) / 1e6)


@pytest.mark.parametrize("seconds", [0.01, 1.0, 61.0])
def test_windows_are_those_of_an_analysis(spark: SparkSession, folder: Path, frame: DataFrame, seconds: float) -> None:
    analysis = analyzed_runs(spark, folder, options=Options(window_s=seconds))
    expected = [
        row for row in analysis.tables["windows"].to_pylist() if row["count"] or row["throughput_per_s"]
    ]  # an analysis fills the gaps
    assert_same(stafette.spark.windows(frame, seconds=seconds), expected, (*GROUP, "second"))


def test_the_breakdown_is_that_of_an_analysis(frame: DataFrame, analysis: Analysis) -> None:
    breakdown = stafette.spark.breakdown(frame)
    assert breakdown.columns == analysis.tables["breakdown"].column_names
    assert_same(breakdown, analysis.tables["breakdown"].to_pylist(), ("run", "operation", "outcome"))


def test_rows_may_be_filtered_and_stored_before(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    frame.where("operation = 'send'").write.parquet(str(tmp_path / "sends"))
    sends = stafette.spark.summary(spark.read.parquet(str(tmp_path / "sends")))
    assert {row["operation"] for row in sends.collect()} == {"send", "all"}


def test_spark_sql_knows_them_as_views(spark: SparkSession, frame: DataFrame) -> None:
    frame.createOrReplaceTempView("requests")
    rows = spark.sql("SELECT operation, count(*) AS n FROM requests WHERE outcome = 'ok' GROUP BY operation").collect()
    assert {row["operation"] for row in rows} == {"send", "receive", "echo"}


@pytest.mark.parametrize("function", [stafette.spark.summary, stafette.spark.windows, stafette.spark.breakdown])
def test_another_table_is_refused_in_one_sentence(spark: SparkSession, function: Any) -> None:
    with pytest.raises(
        InvalidRequest, match=r"this is no table of requests: run and .* take what stafette\.spark\.requests"
    ):
        function(spark.range(1))


def test_what_cannot_be_read_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is nothing to read"):
        stafette.spark.requests(spark)
    with pytest.raises(InvalidRequest, match=r"there is no run\.json"):
        stafette.spark.requests(spark, tmp_path)
    with pytest.raises(InvalidRequest, match="there is no source kafka"):
        stafette.spark.requests(spark, tmp_path, source="kafka")  # type: ignore[arg-type]


def test_logs_of_mlmq_with_the_parts_of_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    actions = ("CSndReq#OK#LoginRequest:LoginResponse;", "BRcvReq;C[9]", "BProcReq#LoginRequest:LoginResponse;C[9]")
    for name, action in zip(("client", "receive", "process"), actions, strict=True):
        lines = (f"{at % 5};{1_383_684_920_569 + at};{action}\n" for at in range(20))
        (tmp_path / f"{name}.log").write_text("".join(lines))
    analysis = job.analyze(spark, readers.reader("mlmq", [tmp_path]), requests=str(tmp_path / "requests"))

    frame = stafette.spark.requests(spark, tmp_path, source="mlmq")

    expected = analysis.tables["summary"].to_pylist()
    assert {row["tier"] for row in expected} == {"client", "broker receive", "broker process"}
    assert_same(stafette.spark.summary(frame), expected, GROUP)


def test_somebodys_csv(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("begin,took\n" + "".join(f"{1_000 + at},{at % 7}\n" for at in range(50)))
    mapping = tmp_path / "map.toml"
    mapping.write_text('files = "*.csv"\nunit = "ms"\n[columns]\nstart = "begin"\nduration = "took"\n')
    frame = stafette.spark.requests(spark, tmp_path, source="csv", mapping=mapping, keep=tmp_path / "kept")
    [row] = stafette.spark.summary(frame).where("operation != 'all'").collect()
    assert (row["count"], row["max_ms"], row["p50_ms"]) == (50, 6.0, 3.0)
    assert (tmp_path / "kept" / "data").is_dir()
