"""The tables of samples, with times in seconds since the start of the load."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import check, small

_SECOND = [StructField("run", StringType()), StructField("second", DoubleType())]
QUEUES = StructType([*_SECOND, StructField("queue", StringType()), StructField("messages", LongType())])
COSTS = StructType(
    [*_SECOND, StructField("process", StringType()), StructField("cpu_share", DoubleType()),
     StructField("resident_bytes", LongType())]
)  # fmt: skip


def queues(samples: DataFrame, runs: Sequence[RunTimes]) -> DataFrame:
    """The length of each queue over time."""
    return check(_since_load(samples, runs), QUEUES)


def costs(samples: DataFrame, runs: Sequence[RunTimes]) -> DataFrame:
    """Memory, and processor time per time since the sample before, of each process with two samples or more."""
    order = Window.partitionBy("run", "host", "process", "pid").orderBy("at_ns")
    cpu_seconds = F.col("cpu_seconds") - F.lag("cpu_seconds").over(order)
    seconds = (F.col("at_ns") - F.lag("at_ns").over(order)) / 1e9
    shares = _since_load(samples, runs).withColumn("cpu_share", F.when(seconds > 0, cpu_seconds / seconds))
    return check(shares.where(F.col("cpu_share").isNotNull()), COSTS)


def _since_load(samples: DataFrame, runs: Sequence[RunTimes]) -> DataFrame:
    spark: SparkSession = samples.sparkSession
    starts = small(spark, [(run.run, run.load.start_ns) for run in runs], "run string, load_start long")
    return samples.join(F.broadcast(starts), "run").withColumn("second", (F.col("at_ns") - F.col("load_start")) / 1e9)
