"""Aggregates that are stored: those of a run are made once, and again only when something about them changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stafette.pipeline import aggregates
from stafette.pipeline.job import Analysis
from stafette.pipeline.options import Options
from tests.support.spark_frames import analyzed_runs
from tests.support.synthetic_runs import make_run, requests


def add_run(folder: Path, number: int, *, seed: int = 1) -> None:
    make_run(folder / f"{number}", requests(400, seed=seed, run=f"made-0001/{number}"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs."""
    for number in (1, 2):
        add_run(tmp_path, number, seed=number)
    return tmp_path


def content(analysis: Analysis) -> dict[str, list[dict[str, Any]]]:
    return {name: _sorted(table) for name, table in analysis.tables.items()}


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def forget_requests(folder: Path) -> None:
    """Delete the requests and keep what else is stored, so that nothing can be aggregated any more."""
    shutil.rmtree(folder / "requests" / "data")


def afresh(spark: SparkSession, folder: Path, options: Options | None = None) -> dict[str, list[dict[str, Any]]]:
    shutil.rmtree(folder / "requests")
    return content(analyzed_runs(spark, folder, options=options))


def test_one_run_more_aggregates_only_its_own_requests(spark: SparkSession, runs: Path) -> None:
    analyzed_runs(spark, runs)
    forget_requests(runs)
    add_run(runs, 3, seed=3)

    three = content(analyzed_runs(spark, runs))

    assert {row["run"] for row in three["summary"]} == {f"made-0001/{number}" for number in (1, 2, 3)}
    assert three == afresh(spark, runs)


def test_another_level_aggregates_nothing(spark: SparkSession, runs: Path) -> None:
    analyzed_runs(spark, runs)
    forget_requests(runs)

    wide = content(analyzed_runs(spark, runs, options=Options(level=0.99)))

    assert wide == afresh(spark, runs, Options(level=0.99))


@pytest.mark.parametrize(
    "options", [Options(window_s=0.02), Options(warm_up=0.01), Options(limits_ms=(3.0,)), Options(warm_up="auto")]
)
def test_other_windows_warm_ups_and_limits_are_aggregated_again(
    spark: SparkSession, runs: Path, options: Options
) -> None:
    analyzed_runs(spark, runs)

    changed = content(analyzed_runs(spark, runs, options=options))

    assert changed == afresh(spark, runs, options)


def test_a_run_that_changed_is_aggregated_again(spark: SparkSession, runs: Path) -> None:
    before = content(analyzed_runs(spark, runs))
    shutil.rmtree(runs / "2")
    add_run(runs, 2, seed=5)

    after = content(analyzed_runs(spark, runs))

    assert after["distribution"] != before["distribution"]
    assert after == afresh(spark, runs)


def test_aggregates_of_another_version_are_made_again(
    spark: SparkSession, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyzed_runs(spark, runs)
    forget_requests(runs)
    monkeypatch.setattr(aggregates, "VERSION", aggregates.VERSION + 1)

    assert content(analyzed_runs(spark, runs))["summary"] == [], "there are no requests to make them of"


def test_a_run_without_traces_has_no_rows(spark: SparkSession, runs: Path) -> None:
    shutil.rmtree(runs / "2" / "traces")
    (runs / "2" / "traces").mkdir()

    analysis = analyzed_runs(spark, runs)

    assert {row["run"] for row in analysis.tables["summary"].to_pylist()} == {"made-0001/1"}
    assert {run["run"] for run in analysis.facts["runs"]} == {"made-0001/1", "made-0001/2"}


def test_aggregates_that_cannot_be_stored_are_made_again(spark: SparkSession, runs: Path) -> None:
    first = content(analyzed_runs(spark, runs))
    shutil.rmtree(runs / "requests" / "aggregates")
    (runs / "requests" / "aggregates").touch()

    assert content(analyzed_runs(spark, runs)) == first
