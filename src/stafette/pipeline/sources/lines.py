"""Text, line by line, with the number of a line for those who ask.

Spark reads a large file in splits, and a row knows its split but not its line. The place of a line in its split, and
the lines of the splits before, give it: so no file has to be in memory whole. Only rejected lines need their number;
good ones cost one pass without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import REJECTED_TEXT, REJECTS, check, small
from stafette.pipeline.sources import files


@dataclass(frozen=True)
class Texts:
    """Files of text, and what is in them."""

    folders: Mapping[str, str]
    """Of each run, by its name: the folder that was given."""
    lines: DataFrame
    """file, run, node (the file's path in its folder), split, place, text."""
    bad: Sequence[files.BadFile]
    """Files that cannot be read to their end: they are in no line."""


def read(spark: SparkSession, folders: Sequence[str | Path], pattern: str = "*") -> Texts:
    """Read all files of such names below the folders, each of which is a run."""
    roots = files.roots(folders)
    found, bad = files.sift(files.text_below(spark, list(roots), pattern), lambda some: _not_empty(spark, some))
    if not found:
        why = f": {bad[0].file} {bad[0].reason}" if bad else ""
        raise InvalidRequest(f"there is nothing to read in {', '.join(roots)}{why}")
    whose = {path: files.belongs(files.plain(path), roots) for path in found}
    names = [(path, files.plain(path), run, node) for path, (run, node) in whose.items()]
    lines = _text(spark, [files.plain(path) for path in found]).select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("split"),
        F.monotonically_increasing_id().alias("place"),
        F.make_valid_utf8("value").alias("text"),
    )
    named = small(spark, names, "path string, file string, run string, node string")
    # A look-up for each line: to decode the path of each would take longer than to read it.
    return Texts({run: root for root, run in roots.items()}, lines.join(F.broadcast(named), "path").drop("path"), bad)


def _text(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Lines end in LF, CR LF or CR; a byte order mark is left out."""
    return spark.read.option("recursiveFileLookup", "true").text(files.escaped(paths))


def _not_empty(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Those of the files that have lines, by the address that rows have; fails when one cannot be read to its end."""
    return [path for (path,) in _text(spark, paths).select("_metadata.file_path").distinct().collect()]


def first(lines: DataFrame) -> dict[str, str]:
    """The first line of each file."""
    heads = lines.where(F.col("split") == 0).groupBy("file").agg(F.min_by("text", "place"))
    return {row[0]: row[1] for row in heads.collect()}


def numbered(lines: DataFrame, chosen: DataFrame) -> DataFrame:
    """Lines chosen of all, with their number as ``line``, the first being 1."""
    order = Window.partitionBy("file").orderBy("split").rowsBetween(Window.unboundedPreceding, -1)
    splits = (
        lines.groupBy("file", "split")
        .agg(F.min("place").alias("first"), F.count(F.lit(1)).alias("count"))
        .withColumn("before", F.coalesce(F.sum("count").over(order), F.lit(0)))
    )
    # The places are the same in both passes: Spark splits the same files the same way.
    line = F.col("place") - F.col("first") + F.col("before") + 1
    joined = chosen.join(F.broadcast(splits), ["file", "split"], "left")
    return joined.withColumn("line", F.coalesce(line, F.lit(0))).drop("first", "count", "before")


def rejects(lines: DataFrame, parsed: DataFrame, header: Column) -> DataFrame:
    """The lines that have a ``reason`` why they cannot be used; a first line that is a header is none of them."""
    found = numbered(lines, parsed.where(F.col("reason").isNotNull())).where(~((F.col("line") == 1) & header))
    return check(found.withColumn("text", F.left("text", F.lit(REJECTED_TEXT))), REJECTS)
