"""A stream over trace files comes to the same counts as a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from stafette.pipeline import follow
from stafette.pipeline.schema import ROWS
from stafette.pipeline.sources import native
from stafette.pipeline.transforms import counts
from tests.support import synthetic_runs

ORDER = [("code", "ascending"), ("place", "ascending")]


def test_a_stream_comes_to_the_same_as_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    synthetic_runs.make_run(tmp_path, synthetic_runs.requests(5_000), warm_up=0.1, file_rows=700)
    timed = follow.begun(spark, tmp_path)
    assert timed is not None
    query = follow.stream(spark, tmp_path, [timed], synthetic_runs.SECOND)
    query.awaitTermination()
    streamed = follow.counts_of(spark, query).sort_by(ORDER)
    batch = counts.coarse(native.read(spark, [tmp_path]).rows, [timed], synthetic_runs.SECOND).toArrow().sort_by(ORDER)
    assert len(list((tmp_path / "traces").glob("*.parquet"))) > 10
    assert sum(batch["count"].to_pylist()) == 10_000
    for name in counts.COARSE.names:
        if name != "squares":
            assert streamed[name].to_pylist() == batch[name].to_pylist(), name
    assert all(
        abs(a - b) <= 1e-12 * b
        for a, b in zip(streamed["squares"].to_pylist(), batch["squares"].to_pylist(), strict=True)
    )


def test_a_run_is_followed_until_it_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    rows = synthetic_runs.requests(2_000)
    synthetic_runs.make_run(tmp_path, rows, file_rows=500, think_time_s=0.001)
    record = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(record | {"state": "running"}))
    shown: list[list[dict[str, Any]]] = []
    late = sorted((tmp_path / "traces").glob("*.parquet"))[::2]
    for file in late:
        file.rename(tmp_path / file.name)

    def show(found: list[dict[str, Any]]) -> None:
        shown.append(found)
        for file in late if len(shown) == 1 else []:
            (tmp_path / file.name).rename(file)
        (tmp_path / "run.json").write_text(json.dumps(record))

    follow.follow(spark, tmp_path, every_s=0.2, show=show)
    assert len(shown) >= 2
    counted = {
        (row["tier"], row["operation"], row["outcome"]): row["count"] for row in shown[-1] if row["operation"] != "all"
    }
    expected: dict[tuple[str, str, str], int] = {}
    window = record["window"]
    for row in rows.to_pylist():
        if window["start_ns"] <= row["intended_ns"] < window["end_ns"]:
            key = (row["tier"], row["operation"], row["outcome"])
            expected[key] = expected.get(key, 0) + 1
    assert counted == expected
    assert (
        spark.read.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(tmp_path / "traces")).count() == 4_000
    )
