"""What the laboratory sampled each second, of all runs in one table of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from stafette.pipeline.schema import small
from stafette.pipeline.sources import files
from stafette.pipeline.sources.base import Samples

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

_ALL = StructType(list({field.name: field for schema in SCHEMAS.values() for field in schema}.values()))
"""What any of the files may have: so one pass looks at all of them."""


def read(spark: SparkSession, found: Sequence[str], wanted: Mapping[str, str]) -> tuple[Samples, list[files.BadFile]]:
    """The samples of the runs, by their folders, and the files that cannot be read."""
    ours = {f"{folder}/samples/{name}.parquet": run for folder, run in wanted.items() for name in SCHEMAS}

    def look(some: Sequence[str]) -> list[str]:
        _frame(spark, some, _ALL).agg(*(F.count(column) for column in _ALL.names)).collect()
        return list(some)

    good, bad = files.sift([path for path in found if path in ours], look)
    tables = {
        name: _with_run(spark, [path for path in good if path.endswith(f"/{name}.parquet")], schema, ours)
        for name, schema in SCHEMAS.items()
    }
    return Samples(**tables), bad


def _frame(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*files.escaped(paths))


def _with_run(spark: SparkSession, paths: Sequence[str], schema: StructType, ours: Mapping[str, str]) -> DataFrame:
    whole = StructType([StructField("run", StringType()), *schema.fields])
    if not paths:
        return small(spark, [], whole)
    runs = small(spark, [(path, ours[path]) for path in paths], "file string, run string")
    rows = _frame(spark, paths, schema).withColumn("file", files.file())
    return rows.join(F.broadcast(runs), "file").select(*whole.names)
