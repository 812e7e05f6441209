"""The whole pipeline on many rows, beside DuckDB computing the same summary table from the same Parquet files.

Run folders are made as the laboratory leaves them: runs of five million rows, a hundred seconds of 25,000 requests each
in two tiers. They are read, checked, counted, joined, modelled and written; Spark gets 4 GiB in all. DuckDB goes before
and after. The tables are compared before any time is printed. Processor time tells more when others use the machine.

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
"""Counted before anything is timed: else the small input would be the slower one, and growth look like none."""


def make(folder: Path, rows: int) -> list[RunTimes]:
    """Write run folders of so many rows; returns when each run was."""
    chance = np.random.default_rng(1)
    spans = []
    for number, first in enumerate(range(0, rows // 2, RUN_REQUESTS), 1):
        requests = min(RUN_REQUESTS, rows // 2 - first)
        begin, seconds = BEGIN + number * 1000 * SECOND, requests / RATE
        end, margin = begin + round(seconds * SECOND), round(0.1 * seconds * SECOND)
        run, its = (
            f"{NAME}/{number:03d}-clients={number}-r1",
            folder / NAME / "runs" / f"{number:03d}-clients={number}-r1",
        )
        span = RunTimes(run, Window(begin, end), Window(begin + margin, end - margin))
        (its / "traces").mkdir(parents=True)
        (its / "run.json").write_text(json.dumps(_record(span, number)))
        _samples(its / "samples", begin, end)
        for part, start in enumerate(range(0, requests, trace.CHUNK_ROWS), 1):
            size = min(trace.CHUNK_ROWS, requests - start)
            for tier, table in _chunks(chance, run, begin + start * SECOND // RATE, size, start + 1):
                pq.write_table(table, its / "traces" / f"{tier}-{tier}-1-1-{part:05d}.parquet", **trace.FORMAT)
        spans.append(span)
    return spans


def _record(span: RunTimes, number: int) -> dict[str, Any]:
    return {
        "format": 1, "id": span.run, "experiment": NAME, "label": f"clients={number}", "levels": {"clients": number},
        "repetition": 1, "state": "done", "load": msgspec.to_builtins(span.load),
        "window": msgspec.to_builtins(span.measured), "verdict": {"valid": True, "sentences": ["made up"]},
        "settings": {"design": {"kind": "sweep"}, "system": {"brokers": 1},
                     "clients": {"alice": {"count": CLIENTS, "think_time": 0.005}}},
    }  # fmt: skip


def _samples(folder: Path, begin: int, end: int) -> None:
    folder.mkdir()
    moments = np.arange(begin, end, SECOND)
    seconds = np.arange(len(moments))
    queues = {"at_ns": moments, "queue": ["q-1"] * len(moments), "messages": seconds}
    processes = {
        "at_ns": moments, "host": ["local"] * len(moments), "process": ["broker-1"] * len(moments),
        "pid": seconds * 0 + 1, "cpu_seconds": 0.5 * seconds, "resident_bytes": seconds * 0 + 10**8,
        "processes": seconds * 0 + 1,
    }  # fmt: skip
    for name, columns in (("queues", queues), ("processes", processes)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def _chunks(
    chance: np.random.Generator, run: str, begin: int, size: int, request: int
) -> Iterator[tuple[str, pa.Table]]:
    """The same requests as the client saw them, and the broker: its part is the middle seven tenths."""
    start = begin + np.sort(chance.integers(0, size * SECOND // RATE, size))
    whole = chance.lognormal(math.log(3e6), 0.7, size).astype(np.int64)
    operation = chance.integers(0, 2, size)
    outcome = np.where((operation == 1) & (chance.random(size) < 0.1), 1, 0)
    outcome = np.where(chance.random(size) < 0.001, 2, outcome)
    words = {
        "client": (chance.integers(0, CLIENTS, size), [f"alice-{number}" for number in range(CLIENTS)]),
        "operation": (operation, ["send", "receive"]),
        "outcome": (outcome, ["ok", "empty", "Overloaded"]),
    }
    numbers = {
        "request": np.arange(request, request + size), "bytes": chance.integers(180, 220, size),
        "messages": (outcome == 0) * 1,
    }  # fmt: skip
    own = dict.fromkeys(("queue_ns", "encode_ns", "read_ns"), whole // 50)
    inner = start + whole // 10
    phases = dict.fromkeys(trace.PHASES, whole // 10) | {"batch": chance.integers(1, 50, size)}
    for tier, first, last, more in (
        ("client", start, start + whole, own),
        ("broker", inner, inner + whole * 7 // 10, phases),
    ):
        same = {"run": run, "tier": tier, "node": f"{tier}-1"}
        names = words | {name: (np.zeros(size), [word]) for name, word in same.items()}
        columns = numbers | {"intended_ns": first, "start_ns": first, "end_ns": last} | more
        yield tier, pa.Table.from_arrays([_column(f, names, columns, size) for f in trace.SCHEMA], schema=trace.SCHEMA)


def _column(field: pa.Field, names: Mapping[str, Any], numbers: Mapping[str, Any], size: int) -> pa.Array:
    if field.name in names:
        codes, words = names[field.name]
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), words)
    return pa.array(numbers[field.name], type=field.type) if field.name in numbers else pa.nulls(size, field.type)


@dataclass(frozen=True)
class Taken:
    """What the pipeline took: seconds, and seconds of processor time, which say more when others use the machine."""

    seconds: Mapping[str, float]
    cpu: Mapping[str, float]
    summary: pa.Table
    windows: int

    @property
    def whole(self) -> float:
        return sum(self.seconds.values())


def with_spark(folder: Path, out: Path) -> Taken:
    """The whole pipeline, from run folders to written tables; Spark has started before."""
    spark = session.start(master=f"local[{CORES}]", conf={"spark.driver.memory": MEMORY})
    spent: list[tuple[str, float]] = []
    analysis = job.analyze(
        spark,
        lambda spark: native.read(spark, [folder]),
        out=out,
        progress=lambda step: spent.append((step, _cpu_seconds())),
    )
    ends = [at for _, at in spent[1:]] + [_cpu_seconds()]
    cpu = {step: end - at for (step, at), end in zip(spent, ends, strict=True)}
    tables = analysis.tables
    rejected = analysis.facts["rejected"]
    if rejected:
        raise SystemExit(f"{rejected} made rows were rejected; look into {out}")
    return Taken(analysis.facts["seconds"], cpu, tables["summary"], tables["windows"].num_rows)


def _processes() -> list[psutil.Process]:
    """This one and Java's."""
    mine = psutil.Process()
    return [mine, *(child for child in mine.children(recursive=True) if child.name() == "java")]


def _cpu_seconds() -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _processes())


def _peak_bytes() -> dict[str, int]:
    """The most memory that each process ever had."""
    found = {}
    for process in _processes():
        status = Path(f"/proc/{process.pid}/status").read_text()
        found[process.name()] = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    return found


def with_duckdb(folder: Path, spans: list[RunTimes]) -> tuple[float, list[dict[str, Any]]]:
    """Seconds and the same summary."""
    connection = duckdb.connect(
        config={"threads": CORES, "memory_limit": "4GB", "temp_directory": str(folder.parent / "duckdb")}
    )
    times = pa.table(
        {"run": [span.run for span in spans], "w0": [span.measured.start_ns for span in spans],
         "w1": [span.measured.end_ns for span in spans]}
    )  # fmt: skip
    connection.register("times", times)
    shares = ", ".join(str(thousandths / 1000) for thousandths in PERCENTILES.values())
    figures = f"""count(*) FILTER (begun) AS count, avg(v) FILTER (begun) AS mean,
        stddev_samp(v) FILTER (begun) AS deviation,
        quantile_disc(v // 1000, [{shares}]) FILTER (begun) AS ranked, max(v) FILTER (begun) AS longest,
        count(*) FILTER (done) AS answers, sum(bytes) FILTER (begun) AS bytes,
        sum(messages) FILTER (begun) AS messages"""
    source = f"""SELECT run, tier, operation, outcome, bytes, messages, w1 - w0 AS length,
        end_ns - CASE WHEN tier = 'client' THEN intended_ns ELSE start_ns END AS v,
        intended_ns >= w0 AND intended_ns < w1 AS begun, end_ns >= w0 AND end_ns < w1 AS done
        FROM read_parquet('{folder}/**/traces/*.parquet') JOIN times USING (run)"""
    began = time.perf_counter()
    found = connection.execute(
        f"""WITH r AS ({source})
        SELECT run, tier, operation, outcome, any_value(length) AS length, {figures} FROM r GROUP BY ALL
        UNION ALL SELECT run, tier, 'all', 'answered', any_value(length), {figures} FROM r
        WHERE outcome IN ('ok', 'empty') GROUP BY run, tier"""
    ).fetchall()
    took = time.perf_counter() - began
    names = [column[0] for column in connection.description or []]
    return took, [dict(zip(names, row, strict=True)) for row in found]


def differences(ours: pa.Table, theirs: list[dict[str, Any]]) -> Iterator[str]:
    """Where the tables are not equal."""
    names = ("run", "tier", "operation", "outcome")
    known = {tuple(row[name] for name in names): row for row in theirs}
    if ours.num_rows != len(known):
        yield f"{ours.num_rows} rows here, {len(known)} there"
    for row in ours.to_pylist():
        other = known[tuple(row[name] for name in names)]
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


def measure(rows: int, where: Path) -> tuple[Taken, float]:
    """What the pipeline took, and the seconds of DuckDB, after comparing their tables."""
    folder = where / str(rows)
    began = time.perf_counter()
    spans = make(folder, rows)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    took = time.perf_counter() - began
    print(
        f"{rows:,} rows in {size / 1e6:,.0f} MB, made in {took:.1f} s; load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    before, _ = with_duckdb(folder, spans)
    ours = with_spark(folder, where / f"{rows}-out")
    cpu = psutil.Process().cpu_times().user
    after, other = with_duckdb(folder, spans)
    cpu = psutil.Process().cpu_times().user - cpu
    theirs = (before + after) / 2
    found = list(differences(ours.summary, other))
    if found:
        raise SystemExit("the tables differ: " + "; ".join(found[:5]))
    for step, seconds in ours.seconds.items():
        print(f"  {step:8} {seconds:7.1f} s   {ours.cpu[step]:6.1f} s of processor time")
    print(f"  whole    {ours.whole:7.1f} s   {sum(ours.cpu.values()):6.1f} s of processor time", flush=True)
    print(
        f"  DuckDB   {before:7.1f} s before, {after:.1f} s after, {cpu:.1f} s of processor time, for the summary alone"
    )
    counted = ours.seconds["count"]
    print(
        f"  ratio    {counted / theirs:7.1f}     of the step that makes the summary of {ours.summary.num_rows} rows "
        f"(and {ours.windows:,} windows, shares, distribution); {ours.cpu['count'] / cpu:.1f} by processor time; "
        f"whole pipeline {ours.whole / theirs:.1f}"
    )
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--small", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the rows are made for the time being")
    chosen = parser.parse_args()
    session.start(master=f"local[{CORES}]", conf={"spark.driver.memory": MEMORY})
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        where = Path(name)
        make(where / "before", WARM_UP_ROWS)
        with_spark(where / "before", where / "before-out")  # Java compiles what is used often
        small, _ = measure(chosen.small, where)
        large, theirs = measure(chosen.rows, where)
    times = chosen.rows / chosen.small
    grown = {name: large.seconds[name] / small.seconds[name] for name in ("read", "count", "join")}
    told = ", ".join(f"{name} {growth:.1f}" for name, growth in grown.items())
    print(f"{times:g} times the rows took {large.whole / small.whole:.1f} times as long ({told})")
    peaks = _peak_bytes()
    print("most memory: " + ", ".join(f"{name} {peak / 1024**3:.2f} GiB" for name, peak in peaks.items()))
    print(f"ratio to DuckDB {large.seconds['count'] / theirs:.1f} (aim: 4), whole pipeline {large.whole / theirs:.1f}")


if __name__ == "__main__":
    main()
