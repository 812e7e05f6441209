"""Measures the whole pipeline on many rows, and DuckDB with the same summary table from the same Parquet files.

Run folders are written as the laboratory writes them: runs of five million rows, a hundred seconds of 25,000 requests
each in two tiers. They are read, checked, counted, joined, modelled and written; Spark gets 4 GiB in all. DuckDB runs
before and after. The tables are compared before times are printed. CPU time says more on a shared machine.

    python -m bench.pipeline [--rows 50_000_000] [--small 5_000_000]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from stafette import trace
from stafette.pipeline import job, session
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.sources import native
from stafette.report.result_tables import PERCENTILES
from stafette.runs.window import SECOND, Window

BEGIN = 1_700_000_000 * SECOND
RATE = 25_000
RUN_REQUESTS = 2_500_000
CLIENTS = 200
NAME = "bench-0001"
MEMORY = "4g"
CORES = 2
WARM_UP_ROWS = 2_000_000
"""Rows for a warm-up: without it the small input would be measured cold, and growth would look too small."""


def make(folder: Path, rows: int) -> list[RunTimes]:
    """Write run folders with so many rows; returns the times of each run."""
    rng = np.random.default_rng(1)
    run_times = []
    for number, first in enumerate(range(0, rows // 2, RUN_REQUESTS), 1):
        requests = min(RUN_REQUESTS, rows // 2 - first)
        begin, seconds = BEGIN + number * 1000 * SECOND, requests / RATE
        end, margin = begin + round(seconds * SECOND), round(0.1 * seconds * SECOND)
        run_name = f"{number:03d}-clients={number}-r1"
        run, run_folder = f"{NAME}/{run_name}", folder / NAME / "runs" / run_name
        times = RunTimes(run, Window(begin, end), Window(begin + margin, end - margin))
        (run_folder / "traces").mkdir(parents=True)
        (run_folder / "run.json").write_text(json.dumps(_record(times, number)))
        _samples(run_folder / "samples", begin, end)
        for part, start in enumerate(range(0, requests, trace.CHUNK_ROWS), 1):
            size = min(trace.CHUNK_ROWS, requests - start)
            for tier, table in _chunks(rng, run, begin + start * SECOND // RATE, size, start + 1):
                pq.write_table(table, run_folder / "traces" / f"{tier}-{tier}-1-1-{part:05d}.parquet", **trace.FORMAT)
        run_times.append(times)
    return run_times


def _record(times: RunTimes, number: int) -> dict[str, Any]:
    return {
        "format": 1, "id": times.run, "experiment": NAME, "label": f"clients={number}", "levels": {"clients": number},
        "repetition": 1, "state": "done", "load": msgspec.to_builtins(times.load),
        "window": msgspec.to_builtins(times.measured), "verdict": {"valid": True, "sentences": ["made up"]},
        "settings": {"design": {"kind": "sweep"}, "system": {"brokers": 1},
                     "clients": {"alice": {"count": CLIENTS, "think_time": 0.005}}},
    }  # fmt: skip


def _samples(folder: Path, begin: int, end: int) -> None:
    folder.mkdir()
    times_ns = np.arange(begin, end, SECOND)
    seconds = np.arange(len(times_ns))
    queues = {"at_ns": times_ns, "queue": ["q-1"] * len(times_ns), "messages": seconds}
    processes = {
        "at_ns": times_ns, "host": ["local"] * len(times_ns), "process": ["broker-1"] * len(times_ns),
        "pid": seconds * 0 + 1, "cpu_seconds": 0.5 * seconds, "resident_bytes": seconds * 0 + 10**8,
        "processes": seconds * 0 + 1,
    }  # fmt: skip
    for name, columns in (("queues", queues), ("processes", processes)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def _chunks(rng: np.random.Generator, run: str, begin: int, size: int, request: int) -> Iterator[tuple[str, pa.Table]]:
    """The rows of client and broker for the same requests; the broker has the middle seven tenths of the time."""
    start = begin + np.sort(rng.integers(0, size * SECOND // RATE, size))
    duration = rng.lognormal(math.log(3e6), 0.7, size).astype(np.int64)
    operation = rng.integers(0, 2, size)
    outcome = np.where((operation == 1) & (rng.random(size) < 0.1), 1, 0)
    outcome = np.where(rng.random(size) < 0.001, 2, outcome)
    dictionaries = {
        "client": (rng.integers(0, CLIENTS, size), [f"alice-{number}" for number in range(CLIENTS)]),
        "operation": (operation, ["send", "receive"]),
        "outcome": (outcome, ["ok", "empty", "Overloaded"]),
    }
    numbers = {
        "request": np.arange(request, request + size), "bytes": rng.integers(180, 220, size),
        "messages": (outcome == 0) * 1,
    }  # fmt: skip
    client_phases = dict.fromkeys(("queue_ns", "encode_ns", "read_ns"), duration // 50)
    broker_start = start + duration // 10
    broker_phases = dict.fromkeys(trace.PHASES, duration // 10) | {"batch": rng.integers(1, 50, size)}
    for tier, first, last, phases in (
        ("client", start, start + duration, client_phases),
        ("broker", broker_start, broker_start + duration * 7 // 10, broker_phases),
    ):
        constants = {"run": run, "tier": tier, "node": f"{tier}-1"}
        names = dictionaries | {name: (np.zeros(size), [text]) for name, text in constants.items()}
        columns = numbers | {"intended_ns": first, "start_ns": first, "end_ns": last} | phases
        yield tier, pa.Table.from_arrays([_column(f, names, columns, size) for f in trace.SCHEMA], schema=trace.SCHEMA)


def _column(field: pa.Field, names: Mapping[str, Any], numbers: Mapping[str, Any], size: int) -> pa.Array:
    if field.name in names:
        codes, texts = names[field.name]
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts)
    return pa.array(numbers[field.name], type=field.type) if field.name in numbers else pa.nulls(size, field.type)


@dataclass(frozen=True)
class Cost:
    """Elapsed seconds and CPU seconds of each step, and the resulting tables."""

    seconds: Mapping[str, float]
    cpu: Mapping[str, float]
    summary: pa.Table
    windows: int

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())


def with_spark(folder: Path, out: Path) -> Cost:
    """Run the whole pipeline, from run folders to written tables; Spark must have started."""
    spark = session.start(master=f"local[{CORES}]", conf={"spark.driver.memory": MEMORY})
    step_starts: list[tuple[str, float]] = []
    analysis = job.analyze(
        spark,
        lambda spark: native.read(spark, [folder]),
        out=out,
        progress=lambda step: step_starts.append((step, _cpu_seconds())),
    )
    ends = [at for _, at in step_starts[1:]] + [_cpu_seconds()]
    cpu = {step: end - at for (step, at), end in zip(step_starts, ends, strict=True)}
    tables = analysis.tables
    rejected = analysis.facts["rejected"]
    if rejected:
        raise SystemExit(f"{rejected} rows were rejected; see {out}")
    return Cost(analysis.facts["seconds"], cpu, tables["summary"], tables["windows"].num_rows)


def _processes() -> list[psutil.Process]:
    """This process and Java."""
    own = psutil.Process()
    return [own, *(child for child in own.children(recursive=True) if child.name() == "java")]


def _cpu_seconds() -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _processes())


def _peak_bytes() -> dict[str, int]:
    """The peak memory of each process, by name."""
    peaks = {}
    for process in _processes():
        status = Path(f"/proc/{process.pid}/status").read_text()
        peaks[process.name()] = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    return peaks


def with_duckdb(folder: Path, run_times: list[RunTimes]) -> tuple[float, list[dict[str, Any]]]:
    """Seconds that DuckDB took, and the rows of the same summary."""
    connection = duckdb.connect(
        config={"threads": CORES, "memory_limit": "4GB", "temp_directory": str(folder.parent / "duckdb")}
    )
    windows = pa.table(
        {"run": [times.run for times in run_times], "w0": [times.measured.start_ns for times in run_times],
         "w1": [times.measured.end_ns for times in run_times]}
    )  # fmt: skip
    connection.register("windows", windows)
    shares = ", ".join(str(thousandths / 1000) for thousandths in PERCENTILES.values())
    metrics = f"""count(*) FILTER (begun) AS count, avg(v) FILTER (begun) AS mean,
        stddev_samp(v) FILTER (begun) AS deviation,
        quantile_disc(v // 1000, [{shares}]) FILTER (begun) AS ranked, max(v) FILTER (begun) AS longest,
        count(*) FILTER (done) AS answers, sum(bytes) FILTER (begun) AS bytes,
        sum(messages) FILTER (begun) AS messages"""
    source = f"""SELECT run, tier, operation, outcome, bytes, messages, w1 - w0 AS length,
        end_ns - CASE WHEN tier = 'client' THEN intended_ns ELSE start_ns END AS v,
        intended_ns >= w0 AND intended_ns < w1 AS begun, end_ns >= w0 AND end_ns < w1 AS done
        FROM read_parquet('{folder}/**/traces/*.parquet') JOIN windows USING (run)"""
    started = time.perf_counter()
    rows = connection.execute(
        f"""WITH r AS ({source})
        SELECT run, tier, operation, outcome, any_value(length) AS length, {metrics} FROM r GROUP BY ALL
        UNION ALL SELECT run, tier, 'all', 'answered', any_value(length), {metrics} FROM r
        WHERE outcome IN ('ok', 'empty') GROUP BY run, tier"""
    ).fetchall()
    seconds = time.perf_counter() - started
    names = [column[0] for column in connection.description or []]
    return seconds, [dict(zip(names, row, strict=True)) for row in rows]


def differences(ours: pa.Table, theirs: list[dict[str, Any]]) -> Iterator[str]:
    """The differences between the two summaries."""
    names = ("run", "tier", "operation", "outcome")
    duckdb_rows = {tuple(row[name] for name in names): row for row in theirs}
    if ours.num_rows != len(duckdb_rows):
        yield f"{ours.num_rows} rows from Spark, {len(duckdb_rows)} from DuckDB"
    for row in ours.to_pylist():
        other = duckdb_rows[tuple(row[name] for name in names)]
        exact = {"count": other["count"], "bytes": other["bytes"], "messages": other["messages"]}
        exact |= {name: value / 1000 for name, value in zip(PERCENTILES, other["ranked"], strict=True)}
        close = {
            "mean_ms": other["mean"] / 1e6,
            "stddev_ms": other["deviation"] / 1e6,
            "max_ms": other["longest"] / 1e6,
        }
        close["throughput_per_s"] = other["answers"] / (other["length"] / SECOND)
        yield from (
            f"{row['run']} {name}: {row[name]} and {value}" for name, value in exact.items() if row[name] != value
        )
        yield from (
            f"{row['run']} {name}: {row[name]} and {value}"
            for name, value in close.items()
            if not math.isclose(row[name], value, rel_tol=1e-9)
        )


def measure(rows: int, work_folder: Path) -> tuple[Cost, float]:
    """The cost of the pipeline, and the seconds of DuckDB, after comparing their tables."""
    folder = work_folder / str(rows)
    started = time.perf_counter()
    run_times = make(folder, rows)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    seconds = time.perf_counter() - started
    print(
        f"{rows:,} rows in {size / 1e6:,.0f} MB, written in {seconds:.1f} s; load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    before, _ = with_duckdb(folder, run_times)
    ours = with_spark(folder, work_folder / f"{rows}-out")
    cpu = psutil.Process().cpu_times().user
    after, other = with_duckdb(folder, run_times)
    cpu = psutil.Process().cpu_times().user - cpu
    theirs = (before + after) / 2
    problems = list(differences(ours.summary, other))
    if problems:
        raise SystemExit("the tables differ: " + "; ".join(problems[:5]))
    for step, seconds in ours.seconds.items():
        print(f"  {step:8} {seconds:7.1f} s   {ours.cpu[step]:6.1f} s of CPU time")
    print(f"  total    {ours.total_seconds:7.1f} s   {sum(ours.cpu.values()):6.1f} s of CPU time", flush=True)
    print(f"  DuckDB   {before:7.1f} s before, {after:.1f} s after, {cpu:.1f} s of CPU time, for the summary alone")
    count_seconds = ours.seconds["count"]
    print(
        f"  ratio    {count_seconds / theirs:7.1f}     of the step that makes the summary of {ours.summary.num_rows} "
        f"rows (and {ours.windows:,} windows, shares, distribution); {ours.cpu['count'] / cpu:.1f} by CPU time; "
        f"whole pipeline {ours.total_seconds / theirs:.1f}"
    )
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--small", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="folder for temporary files")
    arguments = parser.parse_args()
    session.start(master=f"local[{CORES}]", conf={"spark.driver.memory": MEMORY})
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        work_folder = Path(name)
        make(work_folder / "before", WARM_UP_ROWS)
        with_spark(work_folder / "before", work_folder / "before-out")  # Java compiles the hot code
        small, _ = measure(arguments.small, work_folder)
        large, theirs = measure(arguments.rows, work_folder)
    factor = arguments.rows / arguments.small
    growth_by_step = {name: large.seconds[name] / small.seconds[name] for name in ("read", "count", "join")}
    growth_text = ", ".join(f"{step} {growth:.1f}" for step, growth in growth_by_step.items())
    print(
        f"{factor:g} times the rows took {large.total_seconds / small.total_seconds:.1f} times as long ({growth_text})"
    )
    peaks = _peak_bytes()
    print("peak memory: " + ", ".join(f"{name} {peak / 1024**3:.2f} GiB" for name, peak in peaks.items()))
    ratio, total_ratio = large.seconds["count"] / theirs, large.total_seconds / theirs
    print(f"ratio to DuckDB {ratio:.1f} (target: 4), whole pipeline {total_ratio:.1f}")


if __name__ == "__main__":
    main()
