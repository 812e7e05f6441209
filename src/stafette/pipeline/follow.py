"""The live summary of a run: a stream over the trace files that are closed already.

The functions of the analysis count the rows by window and microsecond. The state of the stream has only windows that
can still get rows: a watermark closes the others, and their counts go to Parquet files. With these and a checkpoint a
stream resumes where it stopped. When the run has ended, the same functions count all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from stafette.errors import InvalidRequest
from stafette.pipeline import counts, requests, results, times
from stafette.pipeline.run_tables import MICROSECONDS
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import ROWS, small
from stafette.pipeline.sources.files import plain_errors
from stafette.report.result_tables import WINDOW_PERCENTILES
from stafette.runs.layout import REQUESTS, RUN_FILE, TRACES
from stafette.runs.moments import mean_ms
from stafette.runs.records import RunOutline, outline
from stafette.runs.window import SECOND, Window

EVERY_SECONDS = 3.0
LATENESS_SECONDS = 15
"""The time that a window waits for rows: a chunk of a trace is closed every 5 s, and then written."""
RUNNING = "running"
NEVER = 2**62
"""The end of a window that is not over yet."""
KEYS = ("run_code", "code", "ended", "measured")


@plain_errors()
def follow(
    spark: SparkSession, folder: Path, *, window_s: float = 1.0, every_s: float = EVERY_SECONDS,
    show: Callable[[list[dict[str, Any]]], None],
) -> None:  # fmt: skip
    """Show the summary of a run repeatedly until it has ended."""
    while _state(folder) == RUNNING and not any((folder / TRACES).glob("*.parquet")):
        time.sleep(every_s)
    run = find_times(spark, folder, round(window_s * SECOND))
    if run is None:
        return
    query = stream(spark, folder, run, every_s=every_s)
    try:
        while _state(folder) == RUNNING:
            query.awaitTermination(max(1, round(every_s)))
            show(live(spark, folder, closed_windows(spark, folder, run), run))
    finally:
        query.stop()
    run = find_times(spark, folder, run.window_ns)
    assert run is not None
    show(live(spark, folder, count_windows(_files(spark, folder), run), run))


def count_windows(rows: DataFrame, run: RunTimes) -> DataFrame:
    """Counts by microsecond of the begins and, separately, of the ends in each window; `at` is the window's start."""
    by_tier = results.by_tier(requests.of_traces(rows, paired=False))
    timed = times.join(by_tier, times.frame(rows.sparkSession, [run]))
    zero = F.lit(0).cast("long")
    events = _events(timed, "begin_ns", F.col("response_ns"), ended=False).unionAll(
        _events(timed, "end_ns", zero, ended=True)
    )
    at = F.timestamp_micros(F.expr("(load_start + window * window_ns) div 1000"))
    with_watermark = events.withColumn("at", at).withWatermark("at", f"{LATENESS_SECONDS} seconds")
    return counts.count(with_watermark, ("at", *KEYS), "response_ns")


def _events(timed: DataFrame, moment: str, response: Column, *, ended: bool) -> DataFrame:
    inside = timed.where(times.loaded(moment))
    return inside.select(
        "run_code",
        "code",
        F.lit(ended).alias("ended"),
        times.measured(moment).alias("measured"),
        times.window(moment).alias("window"),
        "load_start",
        "window_ns",
        response.alias("response_ns"),
    )


def stream(spark: SparkSession, folder: Path, run: RunTimes, *, every_s: float | None = None) -> StreamingQuery:
    """Count the closed files as they arrive; without an interval, only those that exist now."""
    rows = spark.readStream.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder / TRACES))
    sink = _sink(folder, run)
    writer = count_windows(rows, run).writeStream.outputMode("append").format("parquet")
    writer = writer.option("path", f"{sink}/windows").option("checkpointLocation", f"{sink}/checkpoint")
    if every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_s:g} seconds").start()


def closed_windows(spark: SparkSession, folder: Path, run: RunTimes) -> DataFrame:
    """The counts of the windows that are closed."""
    schema: StructType = count_windows(small(spark, [], ROWS), run).schema
    path = f"{_sink(folder, run)}/windows"
    return spark.read.schema(schema).parquet(path) if Path(path).exists() else small(spark, [], schema)


def _sink(folder: Path, run: RunTimes) -> str:
    """The folder of a stream; there is one for each length of windows."""
    return f"{folder.absolute()}/{REQUESTS}/live-{run.window_ns}"


def live(spark: SparkSession, folder: Path, windows: DataFrame, run: RunTimes) -> list[dict[str, Any]]:
    """The summary from counts by window."""
    groups = {
        row["code"]: {name: row[name] for name in ("tier", "operation", "outcome")} | {"answered": row["answered_code"]}
        for row in results.group_names(requests.names_of(_files(spark, folder))).collect()
    }
    names = small(spark, [(code, row["answered"]) for code, row in groups.items()], "code long, answered_code long")
    last_us = windows.agg(F.unix_micros(F.max("at"))).collect()[0][0]
    if last_us is None:
        return []
    merged = counts.merge(results.also_answered(windows.where("measured"), names), ("code", "ended"))
    metrics = counts.metrics(merged, ("code", "ended"), WINDOW_PERCENTILES).collect()
    end_ns = min(1000 * last_us + run.window_ns, run.measured.end_ns, run.load.end_ns)
    seconds = max(1, end_ns - run.measured.start_ns) / SECOND
    answers = {row["code"]: row["count"] for row in metrics if row["ended"]}
    rows = [
        {"run": run.run}
        | {name: groups[row["code"]][name] for name in ("tier", "operation", "outcome")}
        | {"count": row["count"], "throughput_per_s": answers.get(row["code"], 0) / seconds}
        | {"mean_ms": mean_ms(row["count"], row["total_ns"])}
        | {name: row[name] / MICROSECONDS for name in WINDOW_PERCENTILES}
        for row in metrics
        if not row["ended"]
    ]
    return sorted(rows, key=lambda row: (row["tier"], row["operation"], row["outcome"]))


def find_times(spark: SparkSession, folder: Path, window_ns: int = SECOND) -> RunTimes | None:
    """The times of a run, from its record or its first rows; None while there are no rows."""
    record = _record(folder)
    start_ns = record.load.start_ns if record.load else _files(spark, folder).agg(F.min("intended_ns")).collect()[0][0]
    if start_ns is None:
        return None
    warm_up = float(record.settings.get("run", {}).get("warm_up", 0.0))
    measured = record.window or Window(start_ns + round(warm_up * SECOND), NEVER)
    return RunTimes(record.id, record.load or Window(start_ns, NEVER), measured, window_ns)


def _files(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder / TRACES))


def _state(folder: Path) -> str:
    return _record(folder).state


def _record(folder: Path) -> RunOutline:
    try:
        return outline((folder / RUN_FILE).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"there is no run in {folder}; give the folder of a run that goes on") from error
    except InvalidRequest as error:
        raise InvalidRequest(f"{folder / RUN_FILE} {error.sentence}") from error
