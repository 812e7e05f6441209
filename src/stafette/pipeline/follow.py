"""A run while it goes on: the first pass of the analysis as a stream over the trace files that are closed already.

The same counts as in the batch, kept up to date, so that they are equal once the run has ended. The percentiles of the
live view are as fine as their bins, within 6 %; the analysis that follows has exact ones.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from stafette.errors import InvalidRequest
from stafette.pipeline import counted, ranks
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import ROWS
from stafette.pipeline.transforms import counts
from stafette.pipeline.transforms.bins import lower_bounds
from stafette.runs.layout import RUN_FILE, TRACES
from stafette.runs.records import RunOutline, outline
from stafette.runs.window import SECOND, Window

EVERY_SECONDS = 3.0
RUNNING = "running"
NEVER = 2**62
"""The end of a window that is not over yet."""
SHOWN = {"p50_ms": 500, "p95_ms": 950, "p99_ms": 990}

_numbers = itertools.count(1)


def follow(
    spark: SparkSession, folder: Path, *, window_s: float = 1.0, every_s: float = EVERY_SECONDS,
    show: Callable[[list[dict[str, Any]]], None],
) -> None:  # fmt: skip
    """Show what a run has come to, again and again, until it has ended."""
    while _state(folder) == RUNNING and not any((folder / TRACES).glob("*.parquet")):
        time.sleep(every_s)
    timed = begun(spark, folder)
    if timed is None:
        return
    query = stream(spark, folder, [timed], round(window_s * SECOND), every_s=every_s)
    named: dict[int, dict[str, Any]] = {}
    try:
        running = True
        while running:
            running = _state(folder) == RUNNING
            if running:
                query.awaitTermination(max(1, round(every_s)))
            else:
                query.processAllAvailable()
            show(live(spark, folder, counts_of(spark, query), timed, named))
    finally:
        query.stop()


def stream(
    spark: SparkSession, folder: Path, runs: Sequence[RunTimes], window_ns: int, *, every_s: float | None = None
) -> StreamingQuery:
    """Counts of the closed files, kept in a table in memory; without an interval, of those that are there now."""
    rows = spark.readStream.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder / TRACES))
    writer = counts.coarse(rows, runs, window_ns).writeStream.outputMode("complete").format("memory")
    named = writer.queryName(f"stafette_follow_{next(_numbers)}")
    if every_s is None:
        return named.trigger(availableNow=True).start()
    return named.trigger(processingTime=f"{every_s:g} seconds").start()


def counts_of(spark: SparkSession, query: StreamingQuery) -> pa.Table:
    """What has been counted so far."""
    return spark.table(str(query.name)).toArrow()


def begun(spark: SparkSession, folder: Path) -> RunTimes | None:
    """When the load of a run began, by its record or by its first rows; None while there are none."""
    record = _record(folder)
    first = record.load.start_ns if record.load else _files(spark, folder).agg(F.min("intended_ns")).collect()[0][0]
    if first is None:
        return None
    warm_up = float(record.settings.get("run", {}).get("warm_up", 0.0))
    measured = record.window or Window(first + round(warm_up * SECOND), NEVER)
    return RunTimes(record.id, record.load or Window(first, NEVER), measured)


def live(
    spark: SparkSession, folder: Path, coarse: pa.Table, timed: RunTimes, named: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The summary so far. `named` remembers what codes stand for."""
    missing = set(coarse["code"].unique().to_pylist()) - named.keys()
    if missing:
        found = counts.names(_files(spark, folder), only=sorted(missing)).toArrow().to_pylist()
        named |= {row["code"]: row for row in found}
    if not coarse.num_rows:
        return []
    groups = counted.Groups(pa.Table.from_pylist(list(named.values())))
    cells = counted.cells(coarse, groups)
    inside, done = cells.where(cells.starts), cells.where(cells.ends)
    last = max(int(done.last.max()) + 1 if len(done.last) else 0, 1)
    seconds = (
        max(1e-9, last - timed.since_load_s(timed.measured.start_ns))
        if timed.measured.end_ns == NEVER
        else timed.measured.seconds
    )
    total, count, answers = (
        counted.sums(group, column, len(groups))
        for group, column in (
            (inside.group, inside.total_ns), (inside.group, inside.count), (done.group, done.count)
        )
    )  # fmt: skip
    located = ranks.locate(inside.group, inside.bin, inside.count, list(SHOWN.values()))
    rows = []
    for key, bins in zip(located.keys, lower_bounds(located.bins), strict=True):
        percentiles = dict(zip(SHOWN, (float(bound) / 1000 for bound in bins), strict=True))
        figures = {"count": int(count[key]), "throughput_per_s": float(answers[key] / seconds)}
        rows.append(
            vars(groups.listed[key]) | figures | {"mean_ms": float(total[key] / count[key] / 1e6)} | percentiles
        )
    return rows


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
