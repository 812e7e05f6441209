"""A stream over trace files comes to the same counts as a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline import follow
from stafette.pipeline.schema import ROWS
from stafette.pipeline.sources import native
from stafette.runs.window import SECOND
from tests.support import synthetic_runs


def test_windows_that_are_closed_are_those_of_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    synthetic_runs.make_run(tmp_path, synthetic_runs.requests(5_000, think_time_s=0.1), warm_up=0.1, file_rows=700)
    timed = follow.find_times(spark, tmp_path)
    assert timed is not None
    late = max((tmp_path / "traces").glob("*.parquet"))
    late.rename(tmp_path / late.name)
    follow.stream(spark, tmp_path, timed).awaitTermination()
    (tmp_path / late.name).rename(late)
    follow.stream(spark, tmp_path, timed).awaitTermination()  # goes on where the first one stopped

    closed = follow.closed_windows(spark, tmp_path, timed)
    batch = follow.count_windows(native.parquet(spark, [str(tmp_path / "traces")], ROWS), timed)
    last = closed.agg(F.max("at")).collect()[0][0]
    names = sorted(closed.columns)

    def rows(frame: Any) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, frame.where(F.col("at") <= last).select(*names).collect()))

    assert closed.select("at").distinct().count() > 20
    assert rows(closed) == rows(batch)
    assert batch.where(F.col("at") > last).count() > 0, "windows that can still get rows are not closed"


@pytest.mark.parametrize("window_s", [1.0, 5.0])
def test_a_run_is_followed_until_it_has_ended(spark: SparkSession, tmp_path: Path, window_s: float) -> None:
    rows = synthetic_runs.requests(2_000, think_time_s=0.1)
    synthetic_runs.make_run(tmp_path, rows, file_rows=500)
    record = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(record | {"state": "running"}))
    shown: list[list[dict[str, Any]]] = []
    late = sorted((tmp_path / "traces").glob("*.parquet"))[::2]
    for file in late:
        file.rename(tmp_path / file.name)

    def show(live: list[dict[str, Any]]) -> None:
        shown.append(live)
        for file in late if len(shown) == 1 else []:
            (tmp_path / file.name).rename(file)
        (tmp_path / "run.json").write_text(json.dumps(record))

    follow.follow(spark, tmp_path, window_s=window_s, every_s=0.2, show=show)
    assert len(shown) >= 2
    single = {(row["tier"], row["operation"], row["outcome"]): row for row in shown[-1] if row["operation"] != "all"}
    counts: dict[tuple[str, str, str], int] = {}
    answers: dict[tuple[str, str, str], int] = {}
    window = record["window"]
    for row in rows.to_pylist():
        key = (row["tier"], row["operation"], row["outcome"])
        counts[key] = counts.get(key, 0) + (window["start_ns"] <= row["intended_ns"] < window["end_ns"])
        answers[key] = answers.get(key, 0) + (window["start_ns"] <= row["end_ns"] < window["end_ns"])
    seconds = (window["end_ns"] - window["start_ns"]) / SECOND
    assert {key: row["count"] for key, row in single.items()} == counts
    assert {key: row["throughput_per_s"] for key, row in single.items()} == pytest.approx(
        {key: count / seconds for key, count in answers.items()}
    )
