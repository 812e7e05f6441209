"""The laboratory and the pipeline say the same of the same run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stafette.lab.running import trace_rows
from stafette.lab.running.summarise import per_second, summarise
from stafette.lab.running.verdict import RunContext, check
from stafette.runs import records
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.layout import RUN_FILE, TRACES
from stafette.runs.outcomes import ALL, ANSWERED
from stafette.runs.records import RunRecord
from stafette.runs.summary import Figures
from stafette.runs.window import SECOND, Window
from stafette.trace import NOT_APPLICABLE, Trace
from tests.support import synthetic_runs
from tests.support.spark_frames import analyzed_runs

pytestmark = pytest.mark.slow

CLIENTS, THINK_TIME_S, RESPONSE_S, SECONDS = 10, 0.04, 0.005, 20
STEPS_PER_S = CLIENTS / (2 * RESPONSE_S + THINK_TIME_S)


def two_requests_per_step() -> pa.Table:
    """Each client makes two requests of 5 ms, one after the other, and then pauses for 40 ms."""
    cycle = round((2 * RESPONSE_S + THINK_TIME_S) * SECOND)
    rows = synthetic_runs.requests(CLIENTS * 2 * (SECONDS * SECOND // cycle), clients=CLIENTS)
    client = np.array(rows["tier"].to_pylist()) == "client"
    number = np.concatenate([np.arange(n) for n in (client.sum(), (~client).sum())])
    turn, response = number // CLIENTS, round(RESPONSE_S * SECOND)
    start = synthetic_runs.BEGIN + number % CLIENTS * (cycle // CLIENTS) + turn // 2 * cycle + turn % 2 * response
    for name, values in (("intended_ns", start), ("start_ns", start), ("end_ns", start + response)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return rows


def test_littles_law_of_steps_that_are_two_requests(spark: SparkSession, tmp_path: Path) -> None:
    """Clients pause once per step: whoever takes each request for a step counts their pauses twice."""
    synthetic_runs.make_run(
        tmp_path, two_requests_per_step(), clients=CLIENTS, think_time_s=THINK_TIME_S, warm_up=2.0, cool_down=2.0
    )
    record = records.read(tmp_path / RUN_FILE, RunRecord)
    record.closed_loop = ClosedLoop(CLIENTS, THINK_TIME_S, STEPS_PER_S)
    records.write(tmp_path / RUN_FILE, record)

    rows = trace_rows.read(tmp_path / TRACES)
    assert record.window is not None
    checks = check(rows, summarise(rows, record.window), RunContext(nodes=[], closed_loop=record.closed_loop))
    [in_laboratory] = [each for each in checks if each.name == "littles law"]
    analysis = analyzed_runs(spark, tmp_path)
    [in_pipeline] = [row for row in analysis.tables["laws"].to_pylist() if row["law"] == "little"]

    assert in_laboratory.sentence == "Little's law holds: X·R + S·Z = 10.0 for 10 clients"
    assert (in_pipeline["ok"], in_pipeline["sentence"]) == (in_laboratory.ok, in_laboratory.sentence)


def write_run(folder: Path, run: str, seed: int) -> RunRecord:
    """A run of requests drawn by chance, with the writer that clients use; times are of any nanosecond.

    Runs differ in how many requests they have, how long these take and how many of them fail: in some, all or none.
    """
    chance = np.random.default_rng(seed)
    trace = Trace(folder / TRACES, run=run, tier="client", node="load-1")
    begin = time.perf_counter_ns()
    count = round(np.exp(chance.uniform(np.log(20), np.log(4_000))))
    typical, failed = np.exp(chance.uniform(np.log(1e4), np.log(1e9))), [0.0, 0.1, 0.5, 1.0][seed % 4]
    shares = [0.7 * (1 - failed), 0.3 * (1 - failed), 0.7 * failed, 0.3 * failed]
    for number in range(1, count + 1):
        operation = str(chance.choice(["send", "receive", "echo"]))
        outcome = str(chance.choice(["ok", "empty", "Overloaded", "Lost"], p=shares))
        intended = begin + int(chance.integers(0, 8 * SECOND))
        start = intended + int(chance.integers(0, 2_000_000))
        end = start + int(chance.lognormal(np.log(typical), 2.0))
        others = [*[NOT_APPLICABLE] * 7, 10, 1, NOT_APPLICABLE]  # phases, bytes, messages, batch
        trace.add(f"c-{number % 7}", number, operation, outcome, intended, start, end, *others)
    trace.close()
    load_start = int(trace_rows.read(folder / TRACES).client.intended.min())
    record = RunRecord(
        id=run, experiment="made", label=f"seed={seed}", levels={"seed": seed}, repetition=1, state="done", seed=seed,
        settings={}, load=Window(load_start, load_start + 8 * SECOND),
        window=Window(load_start + 1_234_567_891, load_start + 6_543_219_876),
    )  # fmt: skip
    records.write(folder / RUN_FILE, record)
    return record


def assert_alike(ours: Figures, theirs: Mapping[str, Any]) -> None:
    assert (ours.count, ours.throughput_per_s) == (theirs["count"], theirs["throughput_per_s"])
    names = {"p50_ms": "p50_ms", "p90_ms": "p90_ms", "p95_ms": "p95_ms", "p99_ms": "p99_ms", "p999_ms": "p99_9_ms"}
    assert {name: getattr(ours, name) for name in names} == {name: theirs[other] for name, other in names.items()}
    assert ours.max_ms == theirs["max_ms"]
    assert (ours.mean_ms, ours.stddev_ms) == (theirs["mean_ms"], theirs["stddev_ms"])


def test_summaries_of_generated_runs_are_equal(spark: SparkSession, tmp_path: Path) -> None:
    made_up = {seed: write_run(tmp_path / f"{seed}", f"made-0001/{seed}", seed) for seed in range(1, 13)}
    tables = analyzed_runs(spark, tmp_path).tables
    summaries = tables["summary"].to_pylist()
    seconds = [row for row in tables["windows"].to_pylist() if (row["operation"], row["outcome"]) == (ALL, ANSWERED)]
    for seed, record in made_up.items():
        assert record.load is not None
        assert record.window is not None
        rows = trace_rows.read(tmp_path / f"{seed}" / TRACES)
        ours, theirs = summarise(rows, record.window), [row for row in summaries if row["run"] == record.id]
        figures = {(part.operation, part.outcome): part.figures for part in ours.parts}
        if ours.overall.count or ours.overall.throughput_per_s:  # the pipeline has no row where nothing was answered
            figures[ALL, ANSWERED] = ours.overall
        assert figures.keys() == {(row["operation"], row["outcome"]) for row in theirs}
        for row in theirs:
            assert_alike(figures[row["operation"], row["outcome"]], row)
        course, their_course = per_second(rows, record.load), [row for row in seconds if row["run"] == record.id]
        if not their_course:
            assert set(course.throughput) == {0.0}
            continue
        assert course.throughput == [row["throughput_per_s"] for row in their_course]
        assert course.p99_ms == [row["p99_ms"] for row in their_course]
        assert course.mean_ms == [row["mean_ms"] for row in their_course]
