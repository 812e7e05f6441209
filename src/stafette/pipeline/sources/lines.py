"""Text, line by line, with the number of a line for those who ask.

Spark reads a large file in splits, and a row knows its split but not its line. The place of a line in its split, and
the lines of the splits before, give it: so no file has to be in memory whole. Only rejected lines need their number;
good ones cost one pass without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.schema import REJECTED_TEXT, REJECTS, check
from stafette.pipeline.sources import files


def read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """All lines of the files: file, split, place, text. They end in LF, CR LF or CR; a byte order mark is left out."""
    frame = spark.read.option("recursiveFileLookup", "true").text(files.escaped(paths))
    return frame.select(
        files.file().alias("file"),
        F.col("_metadata.file_block_start").alias("split"),
        F.monotonically_increasing_id().alias("place"),
        F.make_valid_utf8("value").alias("text"),
    )


def readable(spark: SparkSession, paths: Sequence[str]) -> tuple[list[str], list[files.BadFile]]:
    """Which of the files can be read to their end, and which cannot."""

    def look(some: Sequence[str]) -> list[str]:
        spark.read.option("recursiveFileLookup", "true").text(files.escaped(some)).agg(F.count(F.lit(1))).collect()
        return list(some)

    return files.sift(paths, look)


def numbered(lines: DataFrame, chosen: Column) -> DataFrame:
    """The chosen lines, with their number as ``line``, the first being 1."""
    order = Window.partitionBy("file").orderBy("split").rowsBetween(Window.unboundedPreceding, -1)
    splits = (
        lines.groupBy("file", "split")
        .agg(F.min("place").alias("first"), F.count(F.lit(1)).alias("count"))
        .withColumn("before", F.coalesce(F.sum("count").over(order), F.lit(0)))
    )
    # The places are the same in both passes: Spark splits the same files the same way.
    return (
        lines.where(chosen)
        .join(F.broadcast(splits), ["file", "split"])
        .withColumn("line", F.col("place") - F.col("first") + F.col("before") + 1)
        .drop("first", "count", "before")
    )


def rejects(lines: DataFrame, reason: Column, *, header: Column | None = None) -> DataFrame:
    """The lines that have a reason why they cannot be used; a first line that is a header is none of them."""
    found = numbered(lines.withColumn("reason", reason), F.col("reason").isNotNull())
    if header is not None:
        found = found.where(~((F.col("line") == 1) & header))
    return check(found.withColumn("text", F.left("text", F.lit(REJECTED_TEXT))), REJECTS)
