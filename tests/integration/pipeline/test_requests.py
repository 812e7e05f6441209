"""The tiers side by side, and samples, against plain Python on the same rows."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from stafette.pipeline.transforms import samples, tiers

from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import ROWS
from stafette.runs.window import Window
from stafette.trace import PHASES
from tests.support import synthetic_runs
from tests.support.spark_frames import assert_no_python


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Two runs with clients and requests of the same names; some never sent, lost, or known only to a broker."""
    parts = []
    for number in (1, 2):
        rows = synthetic_runs.requests(3_000, seed=number, run=f"made-0001/{number}", never_sent=0.02, lost=0.03)
        is_client = np.array(rows["tier"].to_pylist()) == "client"
        forgotten = is_client & (np.arange(len(rows)) % 97 == 0) & (np.array(rows["request"].to_pylist()) > 0)
        parts.append(rows.filter(pa.array(~forgotten)))
    return pa.concat_tables(parts).unify_dictionaries()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("tiers")
    synthetic_runs.write_traces(folder, table)
    return spark.read.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder))


def timed() -> list[RunTimes]:
    load = Window(synthetic_runs.BEGIN, synthetic_runs.BEGIN + synthetic_runs.SECOND)
    measured = Window(
        synthetic_runs.BEGIN + synthetic_runs.SECOND // 10, synthetic_runs.BEGIN + synthetic_runs.SECOND // 2
    )
    return [RunTimes(f"made-0001/{number}", load, measured) for number in (1, 2)]


def names(table: pa.Table) -> list[tuple[str, str, str]]:
    return sorted({(row["run"], row["operation"], row["outcome"]) for row in table.to_pylist()})


def test_tiers_are_joined_and_the_rest_is_left_over(rows: DataFrame, table: pa.Table) -> None:
    found = {
        (row["run"], row["operation"], row["outcome"]): row
        for row in tiers.joined(rows, timed(), names(table)).toArrow().to_pylist()
    }
    expected: dict[tuple[str, str, str], dict[str, Any]] = {}

    def group(row: dict[str, Any]) -> dict[str, Any]:
        empty = {"clients": 0, "brokers": 0, "both": 0, "never_sent": 0, "pairs": []}
        return expected.setdefault((row["run"], row["operation"], row["outcome"]), empty)

    listed = table.to_pylist()
    brokers = {(row["run"], row["client"], row["request"]): row for row in listed if row["tier"] == "broker"}
    seen = set()
    for row in (row for row in listed if row["tier"] == "client"):
        key = (row["run"], row["client"], row["request"])
        mine = group(row)
        mine["clients"] += 1
        mine["never_sent"] += row["request"] == 0
        if key in brokers:
            seen.add(key)
            mine["brokers"] += 1
            mine["both"] += 1
            if timed()[0].measured.start_ns <= row["intended_ns"] < timed()[0].measured.end_ns:
                mine["pairs"].append((row, brokers[key]))
    for key in brokers.keys() - seen:
        group(brokers[key])["brokers"] += 1
    assert found.keys() == expected.keys()
    assert sum(mine["never_sent"] for mine in expected.values()) > 0
    assert any(mine["brokers"] > mine["both"] for mine in expected.values())
    for key, mine in expected.items():
        row = found[key]
        assert {name: row[name] for name in ("clients", "brokers", "both", "never_sent")} == {
            name: mine[name] for name in ("clients", "brokers", "both", "never_sent")
        }
        assert row["count"] == len(mine["pairs"])
        if mine["pairs"]:
            _compare(row, mine["pairs"])


def _compare(row: dict[str, Any], pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    def mean(values: list[int]) -> Any:
        return pytest.approx(sum(values) / len(values) / 1e6, rel=1e-9)

    assert row["client_ms"] == mean([client["end_ns"] - client["intended_ns"] for client, _ in pairs])
    for name in PHASES:
        assert row[name.replace("_ns", "_ms")] == mean([broker[name] for _, broker in pairs])
    for name in tiers.OWN:
        assert row[f"client_{name.replace('_ns', '_ms')}"] == mean([client[name] for client, _ in pairs])
    rest = [
        client["end_ns"] - client["intended_ns"] - (broker["end_ns"] - broker["start_ns"])
        - sum(client[name] for name in tiers.OWN)
        for client, broker in pairs
    ]  # fmt: skip
    assert min(rest) >= 2 * synthetic_runs.LEAST_NETWORK
    assert row["unexplained_ms"] == mean(rest)


def test_a_small_join_is_hashed_and_looks_at_each_tier_once(rows: DataFrame, table: pa.Table) -> None:
    found = tiers.joined(rows, timed(), names(table))
    found.collect()
    plan = io.StringIO()
    with redirect_stdout(plan):
        found.explain()
    final = plan.getvalue().partition("Initial Plan")[0]
    assert "ShuffledHashJoin" in final
    assert "SortMergeJoin" not in final
    assert final.count("FileScan") == 2


def test_samples_count_from_the_load(spark: SparkSession, tmp_path: Path) -> None:
    synthetic_runs.write_samples(tmp_path, synthetic_runs.BEGIN, synthetic_runs.BEGIN + 5 * synthetic_runs.SECOND)
    load = Window(synthetic_runs.BEGIN - synthetic_runs.SECOND, synthetic_runs.BEGIN + synthetic_runs.SECOND)
    run = RunTimes("made-0001/1", load, Window(synthetic_runs.BEGIN, synthetic_runs.BEGIN + synthetic_runs.SECOND))
    queues, processes = (
        spark.read.parquet(str(tmp_path / f"{name}.parquet")).selectExpr("'made-0001/1' AS run", "*")
        for name in ("queues", "processes")
    )
    found = samples.queues(queues, [run]).orderBy("second").toArrow().to_pylist()
    assert [(row["second"], row["queue"], row["messages"]) for row in found] == [
        (at + 1.0, "q-1", at) for at in range(6)
    ]
    processes = processes.where(
        f"at_ns != {synthetic_runs.BEGIN + 2 * synthetic_runs.SECOND}"
    )  # one sample was late: shares are per time
    costs = samples.costs(processes, [run]).toArrow().to_pylist()
    assert len(costs) == 4 * 4  # the first sample of each process tells no difference
    assert {row["cpu_share"] for row in costs} == {0.5}
    assert {row["second"] for row in costs} == {2.0, 4.0, 5.0, 6.0}
    assert_no_python(samples.costs(processes, [run]))


def test_no_python_runs_per_row(rows: DataFrame, table: pa.Table) -> None:
    assert_no_python(tiers.joined(rows, timed(), names(table)))
