"""The laboratory's samples of each second: a table of all runs for each kind."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from stafette.pipeline.schema import small
from stafette.pipeline.sources import files
from stafette.pipeline.sources.base import BadFile, Samples
from stafette.runs.layout import SAMPLES

_COUNTERS = (
    "commits", "rollbacks", "blocks_read", "blocks_hit", "rows_inserted", "rows_deleted", "deadlocks", "wal_bytes",
    "dead_rows", "connections", "active",
)  # fmt: skip


def _schema(*columns: tuple[str, type]) -> StructType:
    types = {int: LongType(), float: DoubleType(), str: StringType()}
    return StructType([StructField(name, types[kind]) for name, kind in (("at_ns", int), *columns)])


SCHEMAS = {
    "queues": _schema(("queue", str), ("messages", int)),
    "database": _schema(*((name, int) for name in _COUNTERS)),
    "processes": _schema(
        ("host", str), ("process", str), ("pid", int), ("cpu_seconds", float), ("resident_bytes", int),
        ("processes", int),
    ),
    "machines": _schema(("host", str), ("cpu_share", float), ("memory_share", float)),
}  # fmt: skip
"""The columns of the files; in the tables ``run`` comes before them."""


def read(
    spark: SparkSession, nonempty: Container[str], run_ids: Mapping[str, str], bad: Sequence[BadFile] = ()
) -> Samples:
    """The samples of runs; `run_ids` are by folder of the run, and `nonempty` are all folders that have files."""
    runs = {samples: run for folder, run in run_ids.items() if (samples := f"{folder}/{SAMPLES}") in nonempty}
    tables = {name: _table(spark, name, runs, bad) for name in SCHEMAS}
    return Samples(**tables, without=lambda bad_files: read(spark, nonempty, run_ids, bad_files))


def _table(spark: SparkSession, name: str, runs: Mapping[str, str], bad: Sequence[BadFile]) -> DataFrame:
    schema = StructType([StructField("run", StringType()), *SCHEMAS[name].fields])
    if not runs:
        return small(spark, [], schema)
    reader = spark.read.schema(SCHEMAS[name]).option("recursiveFileLookup", "true")
    rows = files.without(reader.option("pathGlobFilter", f"{name}.parquet").parquet(*files.escape(runs)), bad)
    run_table = small(spark, list(runs.items()), "folder string, run string")
    return rows.withColumn("folder", files.folder()).join(F.broadcast(run_table), "folder").select(*schema.names)
