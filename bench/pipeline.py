"""The pipeline on many rows, beside DuckDB computing the same summary table from the same Parquet files.

Rows are made in chunks as the laboratory writes them: runs of five million rows, a hundred seconds of 25,000 requests
each in two tiers. Spark gets 4 GiB in all. Both tables are compared before any time is printed.

    python -m bench.pipeline [--rows 50_000_000] [--small 5_000_000]
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stafette import trace
from stafette.pipeline import counting, session
from stafette.pipeline.job import LIMITS_MS
from stafette.pipeline.reduction import Span
from stafette.pipeline.results import PERCENTILES
from stafette.pipeline.schema import ROWS
from stafette.pipeline.transforms.counts import Timed

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
RATE = 25_000
RUN_REQUESTS = 2_500_000
MEMORY = "4g"
CORES = 2
WARM_UP_ROWS = 2_000_000
"""Counted before anything is timed: else the small input would be the slower one, and growth look like none."""


def make(folder: Path, rows: int) -> list[Span]:
    """Write so many rows; returns when each run was."""
    chance = np.random.default_rng(1)
    spans = []
    for number, first in enumerate(range(0, rows // 2, RUN_REQUESTS)):
        requests = min(RUN_REQUESTS, rows // 2 - first)
        begin, seconds = BEGIN + number * 1000 * SECOND, requests / RATE
        run = f"bench-0001/{number + 1:03d}-clients={number + 1}-r1"
        traces = folder / f"{number + 1:03d}" / "traces"
        traces.mkdir(parents=True)
        for part, start in enumerate(range(0, requests, trace.CHUNK_ROWS)):
            size = min(trace.CHUNK_ROWS, requests - start)
            for tier in ("client", "broker"):
                table = _chunk(chance, run, tier, begin + start * SECOND // RATE, size, start + 1)
                pq.write_table(table, traces / f"{tier}-1-1-{part:05d}.parquet", **trace.FORMAT)
        end = begin + round(seconds * SECOND)
        margin = round(0.1 * seconds * SECOND)
        spans.append(Span(Timed(run, begin, begin + margin, end - margin), end, SECOND))
    return spans


def _chunk(chance: np.random.Generator, run: str, tier: str, begin: int, size: int, request: int) -> pa.Table:
    start = begin + np.sort(chance.integers(0, size * SECOND // RATE, size))
    whole = chance.lognormal(math.log(3e6), 0.7, size).astype(np.int64)
    response = whole if tier == "client" else whole * 7 // 10
    operation = chance.integers(0, 2, size)
    outcome = np.where((operation == 1) & (chance.random(size) < 0.1), 1, 0)
    outcome = np.where(chance.random(size) < 0.001, 2, outcome)
    names = {
        "run": (np.zeros(size), [run]),
        "tier": (np.zeros(size), [tier]),
        "node": (np.zeros(size), [f"{tier}-1"]),
        "client": (chance.integers(0, 200, size), [f"alice-{number}" for number in range(200)]),
        "operation": (operation, ["send", "receive"]),
        "outcome": (outcome, ["ok", "empty", "Overloaded"]),
    }
    columns: dict[str, Any] = {
        name: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), words)
        for name, (codes, words) in names.items()
    }
    columns |= {"request": np.arange(request, request + size), "intended_ns": start, "start_ns": start}
    columns |= {"end_ns": start + response, "bytes": chance.integers(180, 220, size), "messages": (outcome == 0) * 1}
    columns |= dict.fromkeys(trace.PHASES, response // 7 if tier == "broker" else None)
    columns["batch"] = chance.integers(1, 50, size) if tier == "broker" else None
    arrays = [
        pa.nulls(size, field.type) if columns[field.name] is None
        else columns[field.name] if field.name in names
        else pa.array(columns[field.name], type=field.type)
        for field in trace.SCHEMA
    ]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=trace.SCHEMA)


def with_spark(folder: Path, spans: list[Span]) -> tuple[float, pa.Table, int]:
    """Seconds, summary, and number of windows; Spark has started before."""
    spark = session.start(master=f"local[{CORES}]", conf={"spark.driver.memory": MEMORY})
    began = time.perf_counter()
    rows = (
        spark.read.schema(ROWS)
        .option("pathGlobFilter", "*.parquet")
        .option("recursiveFileLookup", "true")
        .parquet(str(folder))
    )
    found = counting.count(rows, spans, [round(limit * 1000) for limit in LIMITS_MS], 0.95)
    return time.perf_counter() - began, found.summary, found.windows.num_rows


def with_duckdb(folder: Path, spans: list[Span]) -> tuple[float, list[dict[str, Any]]]:
    """Seconds and the same summary."""
    connection = duckdb.connect(
        config={"threads": CORES, "memory_limit": "4GB", "temp_directory": str(folder.parent / "duckdb")}
    )
    times = pa.table(
        {"run": [span.timed.run for span in spans], "w0": [span.timed.start for span in spans],
         "w1": [span.timed.end for span in spans]}
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
        FROM read_parquet('{folder}/**/*.parquet') JOIN times USING (run)"""
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


def measure(rows: int, where: Path) -> tuple[float, float]:
    """Seconds of Spark and of DuckDB, after comparing their tables."""
    folder = where / str(rows)
    began = time.perf_counter()
    spans = make(folder, rows)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    took = time.perf_counter() - began
    print(
        f"{rows:,} rows in {size / 1e6:,.0f} MB, made in {took:.1f} s; load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    ours, summary, windows = with_spark(folder, spans)
    theirs, other = with_duckdb(folder, spans)
    found = list(differences(summary, other))
    if found:
        raise SystemExit("the tables differ: " + "; ".join(found[:5]))
    print(f"  Spark   {ours:7.1f} s   summary of {summary.num_rows} rows, {windows:,} windows, shares, distribution")
    print(f"  DuckDB  {theirs:7.1f} s   the same summary; ratio {ours / theirs:.1f}")
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--small", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the rows are made for the time being")
    chosen = parser.parse_args()
    session.start(master=f"local[{CORES}]", conf={"spark.driver.memory": MEMORY})
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        with_spark(Path(name) / "before", make(Path(name) / "before", WARM_UP_ROWS))  # Java compiles what is used often
        small, _ = measure(chosen.small, Path(name))
        large, theirs = measure(chosen.rows, Path(name))
    times, longer = chosen.rows / chosen.small, large / small
    print(f"ratio to DuckDB {large / theirs:.1f}; {times:g} times the rows took {longer:.1f} times as long")


if __name__ == "__main__":
    main()
