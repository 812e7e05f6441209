"""What was sampled each second, in seconds since the start of the load."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from stafette.pipeline import sample_tables
from stafette.pipeline.run_times import RunTimes
from stafette.runs.window import Window
from tests.support.spark_frames import assert_no_python
from tests.support.synthetic_runs import BEGIN, SECOND, write_samples

RUN = "made-0001/1"


@pytest.fixture
def samples(spark: SparkSession, tmp_path: Path) -> dict[str, DataFrame]:
    """Five seconds of a queue and of four processes."""
    write_samples(tmp_path, BEGIN, BEGIN + 5 * SECOND)
    return {
        name: spark.read.parquet(str(tmp_path / f"{name}.parquet")).selectExpr(f"'{RUN}' AS run", "*")
        for name in ("queues", "processes")
    }


def span(run: str = RUN) -> RunTimes:
    """The load begins a second before the samples."""
    return RunTimes(run, Window(BEGIN - SECOND, BEGIN + SECOND), Window(BEGIN, BEGIN + SECOND))


def test_queues_are_listed_by_seconds_since_the_load_began(samples: dict[str, DataFrame]) -> None:
    rows = sample_tables.queues(samples["queues"], [span()]).orderBy("second").toArrow().to_pylist()

    assert [(row["run"], row["second"], row["queue"], row["messages"]) for row in rows] == [
        (RUN, at + 1.0, "q-1", at) for at in range(6)
    ]


def test_the_share_of_a_core_is_per_time_since_the_sample_before(samples: dict[str, DataFrame]) -> None:
    late = samples["processes"].where(f"at_ns != {BEGIN + 2 * SECOND}")

    frame = sample_tables.costs(late, [span()])

    assert_no_python(frame)
    rows = frame.toArrow().to_pylist()
    assert len(rows) == 4 * 4, "the first sample of each process tells no difference"
    assert {row["process"] for row in rows} == {"load-1", "broker-1", "broker-2", "database"}
    assert {row["cpu_share"] for row in rows} == {0.5}
    assert {row["second"] for row in rows} == {2.0, 4.0, 5.0, 6.0}
    assert {row["resident_bytes"] for row in rows} == {100_000_000}


def test_samples_of_runs_that_do_not_count_are_left_out(samples: dict[str, DataFrame]) -> None:
    other = [span("made-0001/2")]

    assert sample_tables.queues(samples["queues"], other).collect() == []
    assert sample_tables.costs(samples["processes"], other).collect() == []


def test_processes_of_the_same_number_on_two_machines_are_two(samples: dict[str, DataFrame]) -> None:
    processes = samples["processes"]
    elsewhere = processes.selectExpr(
        "run", "at_ns", "'elsewhere' AS host", "process", "pid", "3 * cpu_seconds AS cpu_seconds", "resident_bytes",
        "processes",
    )  # fmt: skip

    rows = sample_tables.costs(processes.unionByName(elsewhere), [span()]).toArrow().to_pylist()

    assert sorted(row["cpu_share"] for row in rows) == [0.5] * 20 + [1.5] * 20
