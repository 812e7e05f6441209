"""Text, line by line, with the number of a line for those who ask.

Spark reads a large file in splits, and a row knows its split but not its line. The place of a line in its split, and
the lines of the splits before, give it: so no file has to be in memory whole. Only rejected lines need their number;
good ones cost one pass without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import REJECTED_TEXT, REJECTS, ROWS, check, small
from stafette.pipeline.sources import files
from stafette.pipeline.sources.base import BadFile, Source


@dataclass(frozen=True)
class Texts:
    """Files of text, and what is in them."""

    folders: Mapping[str, str]
    """Of each run, by its name: the folder that was given."""
    lines: DataFrame
    """file, run, node (the file's path in its folder), split, place, text."""
    fingerprint: str
    """Of all files."""
    bytes: int
    left_out: Set[str]
    """Bad files that `lines` is without."""


def read(spark: SparkSession, folders: Sequence[str | Path], pattern: str = "*", bad: Sequence[BadFile] = ()) -> Texts:
    """Read all files of such names below the folders, each of which is a run, but for bad ones."""
    roots = files.roots(folders)
    paths = files.text_below(spark, list(roots), pattern)
    if not paths:
        raise InvalidRequest(f"there is nothing to read in {', '.join(roots)}")
    whose = {path: files.belongs(files.plain(path), roots) for path in paths}
    # Spark lists a local file by another address than the one that its rows have.
    names = [(path.replace("file:///", "file:/"), files.plain(path), run, node) for path, (run, node) in whose.items()]
    lines = files.without(_text(spark, [files.plain(path) for path in paths]), bad).select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("split"),
        F.monotonically_increasing_id().alias("place"),
        F.make_valid_utf8("value").alias("text"),
    )
    named = small(spark, names, "path string, file string, run string, node string")
    # A look-up for each line: to decode the path of each would take longer than to read it.
    text = lines.join(F.broadcast(named), "path").drop("path")
    listed = files.listings(spark, [files.plain(path) for path in paths], "*")
    return Texts(
        {run: root for root, run in roots.items()},
        text,
        repr(sorted(listed.items())),
        sum(listing.bytes for listing in listed.values()),
        {each.file for each in bad},
    )


def _text(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Lines end in LF, CR LF or CR; a byte order mark is left out."""
    return spark.read.option("recursiveFileLookup", "true").text(files.escaped(paths))


def first(lines: DataFrame) -> dict[str, str]:
    """The first line of each file."""
    heads = lines.where(F.col("split") == 0).groupBy("file").agg(F.min_by("text", "place"))
    return {row[0]: row[1] for row in heads.collect()}


def source(texts: Texts, parsed: DataFrame, header: Column, bad: Sequence[BadFile]) -> Source:
    """What parsed lines, with a ``reason`` for those that cannot be used, come to."""
    rejected = numbered(parsed, parsed.where(F.col("reason").isNotNull())).where(~((F.col("line") == 1) & header))
    rejects = check(rejected.withColumn("text", F.left("text", F.lit(REJECTED_TEXT))), REJECTS)
    return Source(
        check(parsed.where(F.col("reason").isNull()), ROWS),
        rejects.unionByName(files.bad_files(parsed.sparkSession, bad)),
        folders=texts.folders,
        parsed=parsed,
        bytes=texts.bytes,
    )


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
