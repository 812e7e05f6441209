"""A run while it goes on: a stream over the trace files that are closed already.

The rows are counted by window and microsecond, by the functions of the analysis. The state of the stream has only
windows that can still get rows: a watermark closes the others, and their counts go to Parquet files. With those and a
checkpoint a stream that was ended goes on where it stopped. When the run has ended, the same functions count all of it.
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
"""How long a window waits for rows: a chunk of a trace is closed every 5 s, and then written."""
RUNNING = "running"
NEVER = 2**62
"""The end of a window that is not over yet."""
KEYS = ("run_code", "code", "ended", "measured")


@plain_errors()
def follow(
    spark: SparkSession, folder: Path, *, window_s: float = 1.0, every_s: float = EVERY_SECONDS,
    show: Callable[[list[dict[str, Any]]], None],
) -> None:  # fmt: skip
    """Show what a run has come to, again and again, until it has ended."""
    while _state(folder) == RUNNING and not any((folder / TRACES).glob("*.parquet")):
        time.sleep(every_s)
    timed = begun(spark, folder, round(window_s * SECOND))
    if timed is None:
        return
    query = stream(spark, folder, timed, every_s=every_s)
    try:
        while _state(folder) == RUNNING:
            query.awaitTermination(max(1, round(every_s)))
            show(live(spark, folder, closed(spark, folder, timed), timed))
    finally:
        query.stop()
    timed = begun(spark, folder, timed.window_ns)
    assert timed is not None
    show(live(spark, folder, counted(_files(spark, folder), timed), timed))


def counted(rows: DataFrame, run: RunTimes) -> DataFrame:
    """Counts by microsecond of what began in each window, and of what ended, apart; `at` is when the window begins."""
    by_tier = results.by_tier(requests.of_traces(rows, paired=False))
    timed = times.join(by_tier, times.frame(rows.sparkSession, [run]))
    nothing = F.lit(0).cast("long")
    both = _windowed(timed, "begin_ns", F.col("response_ns"), ended=False).unionAll(
        _windowed(timed, "end_ns", nothing, ended=True)
    )
    at = F.timestamp_micros(F.expr("(load_start + window * window_ns) div 1000"))
    late = both.withColumn("at", at).withWatermark("at", f"{LATENESS_SECONDS} seconds")
    return counts.count(late, ("at", *KEYS), "response_ns")


def _windowed(timed: DataFrame, moment: str, response: Column, *, ended: bool) -> DataFrame:
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
    """Count the closed files as they come; without an interval, those that are there now."""
    rows = spark.readStream.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder / TRACES))
    sink = _sink(folder, run)
    writer = counted(rows, run).writeStream.outputMode("append").format("parquet")
    writer = writer.option("path", f"{sink}/windows").option("checkpointLocation", f"{sink}/checkpoint")
    if every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_s:g} seconds").start()


def closed(spark: SparkSession, folder: Path, run: RunTimes) -> DataFrame:
    """The counts of the windows that are closed."""
    schema: StructType = counted(small(spark, [], ROWS), run).schema
    path = f"{_sink(folder, run)}/windows"
    return spark.read.schema(schema).parquet(path) if Path(path).exists() else small(spark, [], schema)


def _sink(folder: Path, run: RunTimes) -> str:
    """Windows of another length are another stream."""
    return f"{folder.absolute()}/{REQUESTS}/live-{run.window_ns}"


def live(spark: SparkSession, folder: Path, windows: DataFrame, run: RunTimes) -> list[dict[str, Any]]:
    """The summary of counted windows."""
    named = {
        row["code"]: {name: row[name] for name in ("tier", "operation", "outcome")} | {"answered": row["answered_code"]}
        for row in results.group_names(requests.names_of(_files(spark, folder))).collect()
    }
    names = small(spark, [(code, row["answered"]) for code, row in named.items()], "code long, answered_code long")
    last = windows.agg(F.unix_micros(F.max("at"))).collect()[0][0]
    if last is None:
        return []
    merged = counts.merge(results.also_answered(windows.where("measured"), names), ("code", "ended"))
    figures = counts.figures(merged, ("code", "ended"), WINDOW_PERCENTILES).collect()
    end_ns = min(1000 * last + run.window_ns, run.measured.end_ns, run.load.end_ns)
    seconds = max(1, end_ns - run.measured.start_ns) / SECOND
    answers = {row["code"]: row["count"] for row in figures if row["ended"]}
    rows = [
        {"run": run.run}
        | {name: named[row["code"]][name] for name in ("tier", "operation", "outcome")}
        | {"count": row["count"], "throughput_per_s": answers.get(row["code"], 0) / seconds}
        | {"mean_ms": mean_ms(row["count"], row["total_ns"])}
        | {name: row[name] / MICROSECONDS for name in WINDOW_PERCENTILES}
        for row in figures
        if not row["ended"]
    ]
    return sorted(rows, key=lambda row: (row["tier"], row["operation"], row["outcome"]))


def begun(spark: SparkSession, folder: Path, window_ns: int = SECOND) -> RunTimes | None:
    """When the load of a run began, by its record or by its first rows; None while there are none."""
    record = _record(folder)
    first = record.load.start_ns if record.load else _files(spark, folder).agg(F.min("intended_ns")).collect()[0][0]
    if first is None:
        return None
    warm_up = float(record.settings.get("run", {}).get("warm_up", 0.0))
    measured = record.window or Window(first + round(warm_up * SECOND), NEVER)
    return RunTimes(record.id, record.load or Window(first, NEVER), measured, window_ns)


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
