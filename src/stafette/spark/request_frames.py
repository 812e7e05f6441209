"""Requests with the names of their operations and the times of their runs, and metrics of them.

`summary`, `windows` and `breakdown` need nothing but the rows. So these may be filtered, joined or stored before, and
the requests of several folders may be united.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType

from stafette.errors import InvalidRequest
from stafette.pipeline import requests as request_table
from stafette.pipeline import results, store, times
from stafette.pipeline.ingest import ingest, spans_of
from stafette.pipeline.options import Options
from stafette.pipeline.requests import of_names
from stafette.pipeline.schema import ROWS, check
from stafette.pipeline.sources.files import location, plain_errors
from stafette.pipeline.sources.readers import Kind, reader
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES
from stafette.runs.layout import REQUESTS as REQUESTS_FOLDER
from stafette.runs.window import SECOND

_NAMES = ("run", "operation", "outcome", "broker_tier", "broker_operation", "broker_outcome")
_TIMES = ("load_start_ns", "load_end_ns", "measured_start_ns", "measured_end_ns")

TRACES = ROWS
"""The schema of `traces`."""
REQUESTS = StructType(
    [StructField(name, StringType()) for name in _NAMES]
    + list(request_table.REQUESTS.fields)
    + [StructField(name, LongType()) for name in _TIMES]
)
"""The schema of `requests`. Operation and outcome are the client's; a tier without the request has null in all its
columns. The broker's tier is `broker`, or a part of it. Load and measured window are those of the run."""


@plain_errors()
def traces(spark: SparkSession, *paths: str | Path, source: Kind = "native", mapping: Path | None = None) -> DataFrame:
    """The rows of traces below the paths: one for each request and tier, of runs that are done.

    Invalid rows are left out. `source` is the kind of the files: of the laboratory, of mlmq, or any CSV with a mapping
    of its columns.
    """
    return reader(source, _require_paths(paths), mapping)(spark, kept=frozenset()).rows


@plain_errors()
def requests(
    spark: SparkSession,
    *paths: str | Path,
    source: Kind = "native",
    mapping: Path | None = None,
    keep: str | Path | None = None,
) -> DataFrame:
    """The requests of traces: one row for each, with the times of all tiers.

    Traces are joined once. Their requests are stored in the folder or URL `keep`, by default in `requests` beside the
    traces, and read from there as long as the traces do not change.
    """
    root = location(keep) if keep is not None else f"{location(_require_paths(paths)[0])}/{REQUESTS_FOLDER}"
    with store.own_partitions(spark):
        ingested = ingest(spark, reader(source, paths, mapping), root)
    run_times = times.frame(spark, spans_of(ingested.runs, Options()))
    timed = times.join(ingested.frame, run_times.drop("run"))
    timed = timed.withColumnsRenamed({name.removesuffix("_ns"): name for name in _TIMES})
    runs = run_times.select("run_code", "run")
    frame = timed.join(F.broadcast(runs), "run_code")
    for tier, prefix in (("client", ""), ("broker", "broker_")):
        names = ingested.groups.select(
            F.col("code").alias(f"{tier}_code"),
            *(F.col(name).alias(f"{prefix}{name}") for name in ("tier", "operation", "outcome")),
        )
        frame = frame.join(F.broadcast(names), f"{tier}_code", "left")
    return check(frame, REQUESTS)


def summary(requests: DataFrame) -> DataFrame:
    """Count, mean, deviation, percentiles and throughput of each operation, over the measured window of its run."""
    names, run_times = _names_and_times(requests)
    rows = results.by_tier(_check_requests(requests))
    metrics = results.summary(results.measured_counts(rows, run_times, names), ())
    ends = times.join(rows, run_times).where(times.measured("end_ns"))
    answers = results.also_answered(ends.select(*results.GROUP), names).groupBy(*results.GROUP).agg(
        F.count(F.lit(1)).alias("answers")
    )  # fmt: skip
    joined = results.with_names(metrics.join(answers, list(results.GROUP), "full"), run_times, names)
    seconds = (F.col("measured_end") - F.col("measured_start")) / SECOND
    timed = joined.join(F.broadcast(run_times.select("run", "measured_start", "measured_end")), "run")
    return timed.select(
        "run", "tier", "operation", "outcome",
        F.coalesce("count", F.lit(0)).alias("count"),
        _milliseconds(F.col("total_ns") / F.col("count")).alias("mean_ms"),
        _deviation().alias("stddev_ms"),
        *((F.col(name) / 1000).alias(name) for name in PERCENTILES),
        _milliseconds(F.col("longest_ns")).alias("max_ms"),
        (F.coalesce("answers", F.lit(0)) / seconds).alias("throughput_per_s"),
        F.coalesce("bytes", F.lit(0)).alias("bytes"),
        F.coalesce("messages", F.lit(0)).alias("messages"),
    )  # fmt: skip


def windows(requests: DataFrame, seconds: float = 1.0) -> DataFrame:
    """The same over time: the windows of the load in which a request of an operation began or ended.

    `second` is the start of a window, since the start of the load.
    """
    window_ns = round(Options(window_s=seconds).window_s * SECOND)
    names, run_times = _names_and_times(requests, window_ns)
    metrics = results.windows(results.by_tier(_check_requests(requests)), run_times, names, window_ns)
    joined = results.with_names(metrics, run_times, names)
    timed = joined.join(F.broadcast(run_times.select("run", "load_start", "load_end")), "run")
    start = F.col("window") * window_ns
    length = F.least(F.lit(window_ns), F.col("load_end") - F.col("load_start") - start) / SECOND
    return timed.select(
        "run", "tier", "operation", "outcome",
        (start / SECOND).alias("second"),
        length.alias("seconds"),
        F.coalesce("count", F.lit(0)).alias("count"),
        (F.coalesce("answers", F.lit(0)) / length).alias("throughput_per_s"),
        _milliseconds(F.col("total_ns") / F.col("count")).alias("mean_ms"),
        *((F.col(name) / 1000).alias(name) for name in WINDOW_PERCENTILES),
        _milliseconds(F.col("longest_ns")).alias("max_ms"),
    )  # fmt: skip


def breakdown(requests: DataFrame) -> DataFrame:
    """Where the time goes: the means of all phases, of the requests of both tiers in the measured window."""
    names, run_times = _names_and_times(requests)
    means = results.phase_means(_check_requests(requests), run_times)
    joined = results.with_names(means, run_times, names)
    phases = (*results.BROKER_PHASES, *results.CLIENT_PHASE_NAMES)
    return joined.select(
        "run", "operation", "outcome", "count",
        *(_milliseconds(F.col(name)).alias(f"{name}_ms") for name in ("client", *phases)),
        _milliseconds(F.col(results.NETWORK)).alias("unexplained_ms"),
    )  # fmt: skip


def _require_paths(paths: tuple[str | Path, ...]) -> tuple[str | Path, ...]:
    if not paths:
        raise InvalidRequest("there is nothing to read; give a folder or a URL")
    return paths


def _check_requests(frame: DataFrame) -> DataFrame:
    """The frame; raises InvalidRequest if it is no table of requests."""
    types = {field.name: field.dataType for field in frame.schema}
    missing = [field.name for field in REQUESTS if types.get(field.name) != field.dataType]
    if missing:
        names = f"{missing[0]} is" if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1} other columns are"
        raise InvalidRequest(
            f"this is no table of requests: {names} missing or of another type; take what stafette.spark.requests gives"
        )
    return frame


def _names_and_times(frame: DataFrame, window_ns: int = SECOND) -> tuple[DataFrame, DataFrame]:
    """The names of the codes of requests, and the times of their runs."""
    tiers = [
        _check_requests(frame).where(F.col(f"{tier}_code").isNotNull()).select(
            "run_code", "run", *_TIMES, name.alias("tier"),
            F.col(f"{prefix}operation").alias("operation"), F.col(f"{prefix}outcome").alias("outcome"),
        )
        for tier, name, prefix in (("client", F.lit("client"), ""), ("broker", F.col("broker_tier"), "broker_"))
    ]  # fmt: skip
    groups = tiers[0].unionAll(tiers[1]).distinct()
    runs = groups.select("run_code", "run", *_TIMES).distinct()
    run_times = runs.withColumnsRenamed({name: name.removesuffix("_ns") for name in _TIMES})
    names = results.group_names(of_names(groups.select("run", "tier", "operation", "outcome")))
    return names, run_times.withColumn("window_ns", F.lit(window_ns).cast("long"))


def _milliseconds(nanoseconds: Column) -> Column:
    return nanoseconds / 1_000_000


def _deviation() -> Column:
    """The sample's deviation. Squares are whole numbers of up to 38 digits; their difference fits into a double."""
    total, count = F.col("total_ns").cast("decimal(19,0)"), F.col("count")
    quotient = F.expr("total_ns div count").cast("decimal(19,0)")
    rest = ((F.col("total_ns") % count).cast("decimal(19,0)") * total).cast("double") / count
    difference = (F.col("squares") - (quotient * total).cast("decimal(38,0)")).cast("double") - rest
    return F.when(count > 1, _milliseconds(F.sqrt(F.greatest(difference, F.lit(0.0)) / (count - 1))))
