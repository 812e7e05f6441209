"""Measures the pipeline as ratios within one run: against DuckDB, against a bare start of Spark, and against itself.

    duckdb   Spark and DuckDB make the same tables of the same trace files: requests, joined and written as Parquet,
             and of these summary, windows, breakdown and checks. Spark makes all its other tables besides. DuckDB joins
             all runs at once, or run by run; both have the same cores and memory. The tables are compared: a difference
             ends the bench. Spark has done a trivial job before, so only its first round is cold. `analysis_…` is all
             that an analysis makes: shares, distribution, percentiles of phases, phases over time and checks besides.
    small    commands as a person types them, each a process of its own: 20,000 rows of CSV, 264,000 lines of mlmq's
             logs in 25 files, a run of 120,000 rows; as multiples of a process that starts Spark for one trivial job.
    adding   one more run to 60 that are analysed, as a multiple of analysing that run alone; in a warm session.

    python -m bench.pipeline [--rows 5_000_000] [--only duckdb] [--json]

What is measured takes turns, --rounds times; times are medians. Input that is made goes to --folder and is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from bench import pipeline_data, pipeline_duckdb
from bench.pipeline_differences import differences
from stafette.pipeline import job, results, session, store, times
from stafette.pipeline.ingest import ingest
from stafette.pipeline.job import Analysis
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.sources import readers
from stafette.runs import records
from stafette.runs.layout import ANALYSIS, REQUESTS, RUN_FILE

PARTS = ("small", "duckdb", "adding")
CORES = len(os.sched_getaffinity(0))
JAVA_MEMORY, DUCKDB_MEMORY = "4g", "4GiB"
CSV_ROWS, MLMQ_LINES, MLMQ_FILES, RUN_ROWS, RUN_SECONDS = 20_000, 264_000, 25, 120_000, 30
EARLIER_RUNS = 60

Steps = Mapping[str, Callable[[], float]]
"""The steps that take turns; each returns its seconds."""


@dataclass(frozen=True)
class Settings:
    """The settings of the bench."""

    size: pipeline_data.Size
    rounds: int
    run_rows: int
    work: Path


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        work = Path(arguments.folder or temporary)
        work.mkdir(parents=True, exist_ok=True)
        size = pipeline_data.Size(arguments.rows, arguments.runs, arguments.seconds)
        settings = Settings(size, arguments.rounds, arguments.run_rows, work)
        parts = {"small": small, "duckdb": with_duckdb, "adding": adding}
        measurements: dict[str, Any] = {"rows": size.rows, "runs": size.runs, "rounds": settings.rounds, "cores": CORES}
        measurements["load_average"] = os.getloadavg()[0]
        for part in arguments.only or PARTS:
            measurements |= parts[part](settings)
    if arguments.json:
        print(json.dumps(measurements))
    else:
        for name, value in measurements.items():
            _show(name, value)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=_count, default=5_000_000, help="rows of traces, of both tiers together")
    parser.add_argument("--runs", type=_count, default=12, help="runs that they are of")
    parser.add_argument("--seconds", type=_count, default=60, help="load of each run")
    parser.add_argument("--rounds", type=_count, default=3, help="how often each is measured")
    parser.add_argument("--run-rows", type=_count, default=20_000, help="rows of a run, in the part `adding`")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; repeatable")
    parser.add_argument("--folder", type=Path, help="where input is kept, and everything else is written")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    if arguments.rows < 2 * arguments.runs:
        parser.error("there must be at least two rows for each run")
    return arguments


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _show(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for key, part in value.items():
            _show(f"{name}: {key}", part)
    else:
        text = f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if isinstance(value, float) else value
        print(f"{name:45} {text:>15}")


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _in_turn(rounds: int, steps: Steps) -> dict[str, float]:
    """The median seconds of each step; every second round is in reverse order."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        for name in list(steps)[:: 1 if number % 2 == 0 else -1]:
            seconds[name].append(steps[name]())
            _log(f"{name}: {seconds[name][-1]:.2f} s")
    return {name: round(statistics.median(values), 3) for name, values in seconds.items()}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


# DuckDB


def _spark(work: Path) -> SparkSession:
    """A session that has done a trivial job."""
    spark = session.start(
        master=f"local[{CORES}]", conf={"spark.driver.memory": JAVA_MEMORY, "spark.local.dir": str(work / "spark")}
    )
    spark.range(1000).selectExpr("sum(id)").collect()
    return spark


def _analyze(spark: SparkSession, folder: Path, requests: Path) -> Analysis:
    return job.analyze(spark, readers.reader("native", [folder]), requests=str(requests))


class Comparison:
    """The same tables of the same traces, with Spark and with DuckDB."""

    def __init__(self, settings: Settings, spark: SparkSession) -> None:
        self._spark, self._work = spark, settings.work
        self._traces = pipeline_data.traces(settings.work, settings.size)
        self._ours, self._theirs = (settings.work / f"requests-of-{engine}" for engine in ("spark", "duckdb"))
        self._times = run_times(self._traces)
        self.tables: dict[str, Mapping[str, pa.Table]] = {}
        self.steps: list[Mapping[str, float]] = []

    def spark_from_traces(self) -> float:
        _empty_folder(self._ours)
        seconds = self.spark_from_requests()
        self.steps.append(self._seconds | {"whole": seconds})
        return seconds

    def spark_from_requests(self) -> float:
        shutil.rmtree(self._ours / "aggregates", ignore_errors=True)
        start = time.perf_counter()
        analysis = _analyze(self._spark, self._traces, self._ours)
        seconds = time.perf_counter() - start
        self.tables["spark"], self._seconds = analysis.tables, analysis.facts["seconds"]
        return seconds

    def spark_same_tables_from_traces(self) -> float:
        """The requests, and no more tables than DuckDB makes."""
        _empty_folder(self._ours)
        return self.spark_same_tables_from_requests()

    def spark_same_tables_from_requests(self) -> float:
        return _timed(self._same_tables)

    def _same_tables(self) -> None:
        with store.own_partitions(self._spark):
            ingested = ingest(self._spark, readers.reader("native", [self._traces]), str(self._ours))
            run_times = times.frame(self._spark, self._times)
            rows = results.by_tier(ingested.frame)
            results.summary(results.measured_counts(rows, run_times, ingested.groups), ()).toArrow()
            results.windows(rows, run_times, ingested.groups, self._times[0].window_ns).toArrow()
            results.phase_means(ingested.frame, run_times).toArrow()
            results.tiers(ingested.frame, run_times).toArrow()

    def duckdb_at_once(self) -> float:
        return self._duckdb_from_traces(pipeline_duckdb.requests_at_once)

    def duckdb_by_run(self) -> float:
        return self._duckdb_from_traces(pipeline_duckdb.requests_by_run)

    def _duckdb_from_traces(self, requests_of: Callable[..., pa.Table]) -> float:
        out = _empty_folder(self._theirs)
        start = time.perf_counter()
        with self._connection() as connection:
            reasons = requests_of(connection, self._traces, out)
            files = [str(path) for path in sorted(out.glob("requests*.parquet"))]
            tables = pipeline_duckdb.tables(connection, files, f"{out}/names.parquet", self._times)
        seconds = time.perf_counter() - start
        self._compare(tables | {"reject_reasons": reasons})
        return seconds

    def duckdb_from_requests(self) -> float:
        start = time.perf_counter()
        with self._connection() as connection:
            files = [f"{self._ours}/data/**/*.parquet"]
            tables = pipeline_duckdb.tables(connection, files, f"{self._ours}/names/**/*.parquet", self._times)
        seconds = time.perf_counter() - start
        self._compare(tables | {"reject_reasons": self.tables["spark"]["reject_reasons"]})
        return seconds

    def _connection(self) -> Any:
        return pipeline_duckdb.connect(CORES, DUCKDB_MEMORY, self._work / "duckdb")

    def _compare(self, theirs: Mapping[str, pa.Table]) -> None:
        for difference in differences(self.tables["spark"], theirs):
            raise SystemExit(f"the tables differ: {difference}")

    def compare_requests(self) -> None:
        """Raise SystemExit if the requests from Spark and from DuckDB differ."""
        ours = (f"{self._ours}/data/**/*.parquet", f"{self._ours}/names/**/*.parquet")
        theirs = (f"{self._theirs}/requests*.parquet", f"{self._theirs}/names.parquet")
        with self._connection() as connection:
            if not pipeline_duckdb.same_requests(connection, ours, theirs):
                raise SystemExit("the requests that Spark has written are not those that DuckDB has written")

    def clean(self) -> None:
        """Delete the requests."""
        for folder in (self._ours, self._theirs):
            shutil.rmtree(folder, ignore_errors=True)


def run_times(folder: Path) -> list[RunTimes]:
    """The times of all runs."""
    outlines = [records.outline(path.read_text()) for path in sorted(folder.rglob(RUN_FILE))]
    return [RunTimes(run.id, run.load, run.window) for run in outlines if run.load and run.window]


def with_duckdb(settings: Settings) -> dict[str, Any]:
    """Spark against DuckDB."""
    spark = _spark(settings.work)
    comparison = Comparison(settings, spark)
    steps = {
        "spark_from_traces": comparison.spark_from_traces,
        "duckdb_at_once": comparison.duckdb_at_once,
        "spark_from_requests": comparison.spark_from_requests,
        "spark_same_tables_from_traces": comparison.spark_same_tables_from_traces,
        "spark_same_tables_from_requests": comparison.spark_same_tables_from_requests,
        "duckdb_from_requests": comparison.duckdb_from_requests,
        "duckdb_by_run": comparison.duckdb_by_run,
    }
    seconds = _in_turn(settings.rounds, steps)
    comparison.compare_requests()
    comparison.clean()
    plans = (seconds["duckdb_at_once"], seconds["duckdb_by_run"])
    by_step = {
        name: round(statistics.median(step[name] for step in comparison.steps), 3) for name in comparison.steps[0]
    }
    return {
        "traces_to_duckdb_at_once": seconds["spark_same_tables_from_traces"] / plans[0],
        "traces_to_duckdb_best": seconds["spark_same_tables_from_traces"] / min(plans),
        "requests_to_duckdb": seconds["spark_same_tables_from_requests"] / seconds["duckdb_from_requests"],
        "analysis_to_duckdb_at_once": seconds["spark_from_traces"] / plans[0],
        "analysis_to_duckdb_best": seconds["spark_from_traces"] / min(plans),
        "analysis_of_requests_to_duckdb": seconds["spark_from_requests"] / seconds["duckdb_from_requests"],
        "first_analysis_to_duckdb_at_once": comparison.steps[0]["whole"] / plans[0],
        "duckdb_part_seconds": seconds,
        "spark_steps_seconds": by_step,
        "peak_gib": _peaks(),
    }


def _peaks() -> dict[str, float]:
    """The peak memory of Java and of this process, in GiB."""
    own = psutil.Process()
    java = [child for child in own.children(recursive=True) if child.name() == "java"]
    peaks = {}
    for process in (own, *java):
        status = Path(f"/proc/{process.pid}/status").read_text()
        peaks["java" if process in java else "python"] = int(status.partition("VmHWM:")[2].split()[0]) / 1024**2
    return peaks


# Small input

BARE_START = """
import os
from stafette.pipeline import java
os.environ["JAVA_HOME"] = str(java.home())
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
spark.range(1000).selectExpr("sum(id)").collect()
spark.stop()
"""
"""A plain start of Spark, without settings of ours."""


def small(settings: Settings) -> dict[str, Any]:
    """Whole commands, as multiples of a bare start of Spark."""
    folder = _empty_folder(settings.work / "small")
    mapping = pipeline_data.make_csv(folder / "csv", CSV_ROWS)
    pipeline_data.make_mlmq_logs(folder / "mlmq", MLMQ_LINES, MLMQ_FILES)
    pipeline_data.make_run(folder / "run", 1, RUN_ROWS // 2, RUN_SECONDS)
    steps = {
        "bare_start": lambda: _timed(lambda: _run("-c", BARE_START)),
        "csv": lambda: _command(folder / "csv", "--source", "csv", "--mapping", str(mapping)),
        "mlmq": lambda: _command(folder / "mlmq", "--source", "mlmq"),
        "run": lambda: _command(folder / "run"),
    }
    seconds = _in_turn(settings.rounds, steps)
    shutil.rmtree(folder)
    ratios = {f"{name}_to_bare_start": seconds[name] / seconds["bare_start"] for name in ("csv", "mlmq", "run")}
    return ratios | {"small_seconds": seconds}


def _command(folder: Path, *flags: str) -> float:
    """The seconds of `stafette analyze` for a folder without stored requests or results."""
    for name in (ANALYSIS, REQUESTS):
        shutil.rmtree(folder / name, ignore_errors=True)
    return _timed(lambda: _run("-m", "stafette", "analyze", str(folder), *flags))


def _run(*arguments: str) -> None:
    process = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"a command failed: {' '.join(arguments)[:200]}: {process.stderr.strip()[-2000:]}")


# One more run


def adding(settings: Settings) -> dict[str, Any]:
    """One more run beside analysed ones, against this run alone; from traces to all tables."""
    spark = _spark(settings.work)
    folder, requests, alone = (settings.work / f"adding-{name}" for name in ("runs", "requests", "alone"))
    _empty_folder(folder)
    for number in range(1, EARLIER_RUNS + 1):
        pipeline_data.make_run(folder / f"{number:03d}", number, settings.run_rows // 2, RUN_SECONDS)
    _analyze(spark, folder, _empty_folder(requests))
    last = f"{EARLIER_RUNS + 1:03d}"
    pipeline_data.make_run(folder / last, EARLIER_RUNS + 1, settings.run_rows // 2, RUN_SECONDS)
    earlier = _batches(requests)

    def add_run() -> float:
        for path in _batches(requests) - earlier:
            shutil.rmtree(path)
        return _timed(lambda: _analyze(spark, folder, requests))

    def analyze_alone() -> float:
        _empty_folder(alone)
        return _timed(lambda: _analyze(spark, folder / last, alone))

    steps = {"alone": analyze_alone, "added": add_run}
    for step in steps.values():
        step()
    seconds = _in_turn(settings.rounds, steps)
    if len(store.stored_runs(spark, str(requests))) != EARLIER_RUNS + 1:
        raise SystemExit(f"the requests of {EARLIER_RUNS + 1} runs should be stored, and are not")
    for path in (folder, requests, alone):
        shutil.rmtree(path)
    return {"adding_to_alone": seconds["added"] / seconds["alone"], "adding_seconds": seconds}


def _batches(requests: Path) -> set[Path]:
    return set(requests.glob("*/added=*"))


if __name__ == "__main__":
    main()
