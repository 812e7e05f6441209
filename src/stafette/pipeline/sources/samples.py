"""What the laboratory sampled each second, of all runs in one table of each kind."""

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
    spark: SparkSession, listed: Container[str], wanted: Mapping[str, str], bad: Sequence[BadFile] = ()
) -> Samples:
    """The samples of runs, by their folders; `listed` are folders that have files."""
    runs = {samples: run for folder, run in wanted.items() if (samples := f"{folder}/{SAMPLES}") in listed}
    tables = {name: _table(spark, name, runs, bad) for name in SCHEMAS}
    return Samples(**tables, without=lambda worse: read(spark, listed, wanted, worse))


def _table(spark: SparkSession, name: str, runs: Mapping[str, str], bad: Sequence[BadFile]) -> DataFrame:
    schema = StructType([StructField("run", StringType()), *SCHEMAS[name].fields])
    if not runs:
        return small(spark, [], schema)
    reader = spark.read.schema(SCHEMAS[name]).option("recursiveFileLookup", "true")
    rows = files.without(reader.option("pathGlobFilter", f"{name}.parquet").parquet(*files.escaped(runs)), bad)
    of_folders = small(spark, list(runs.items()), "folder string, run string")
    return rows.withColumn("folder", files.folder()).join(F.broadcast(of_folders), "folder").select(*schema.names)
