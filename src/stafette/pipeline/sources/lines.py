"""Files of text, line by line, and the numbers of rejected lines.

Spark reads a large file in splits, and a row has its split but not its line number. This follows from the row's
position in the split and the number of lines in the splits before, so no file has to fit into memory. Only rejected
lines need their number; the others are read in one pass without it.
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
    """Files of text, and their lines."""

    folders: Mapping[str, str]
    """The folder of each run."""
    lines: DataFrame
    """file, run, node (the file's path in its folder), split, row_id (in the order of the split), text."""
    fingerprint: str
    """Covers all files."""
    bytes: int
    excluded: Set[str]
    """Bad files, which `lines` does not have."""


def read(spark: SparkSession, folders: Sequence[str | Path], pattern: str = "*", bad: Sequence[BadFile] = ()) -> Texts:
    """Read the files below the folders whose names match, without bad ones; each folder is a run."""
    roots = files.roots(folders)
    paths = files.find_texts(spark, list(roots), pattern)
    if not paths:
        raise InvalidRequest(f"there is nothing to read in {', '.join(roots)}")
    nodes = {path: files.run_and_node(files.plain(path), roots) for path in paths}
    # Spark lists a local file by another URL than the one in its rows.
    names = [(path.replace("file:///", "file:/"), files.plain(path), run, node) for path, (run, node) in nodes.items()]
    lines = files.without(_text(spark, [files.plain(path) for path in paths]), bad).select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("split"),
        F.monotonically_increasing_id().alias("row_id"),
        F.make_valid_utf8("value").alias("text"),
    )
    name_table = small(spark, names, "path string, file string, run string, node string")
    # Looked up: to decode the path of each line would take longer than to read the line.
    text = lines.join(F.broadcast(name_table), "path").drop("path")
    listings = files.listings(spark, [files.plain(path) for path in paths], "*")
    return Texts(
        {run: root for root, run in roots.items()},
        text,
        repr(sorted(listings.items())),
        sum(listing.bytes for listing in listings.values()),
        {bad_file.file for bad_file in bad},
    )


def _text(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines, which end in LF, CR LF or CR, without a byte order mark."""
    return spark.read.option("recursiveFileLookup", "true").text(files.escape(paths))


def first_lines(lines: DataFrame) -> dict[str, str]:
    """The first line of each file."""
    heads = lines.where(F.col("split") == 0).groupBy("file").agg(F.min_by("text", "row_id"))
    return {row[0]: row[1] for row in heads.collect()}


def source(texts: Texts, parsed: DataFrame, header: Column, bad: Sequence[BadFile]) -> Source:
    """The source of parsed lines. Those with a ``reason`` are rejects, but not first lines for which `header` holds."""
    rejected = _number(parsed, parsed.where(F.col("reason").isNotNull())).where(~((F.col("line") == 1) & header))
    rejects = check(rejected.withColumn("text", F.left("text", F.lit(REJECTED_TEXT))), REJECTS)
    return Source(
        check(parsed.where(F.col("reason").isNull()), ROWS),
        rejects.unionByName(files.bad_files(parsed.sparkSession, bad)),
        folders=texts.folders,
        parsed=parsed,
        bytes={"": texts.bytes},
    )


def _number(lines: DataFrame, selected: DataFrame) -> DataFrame:
    """The selected ones of all lines with their number, from 1, as ``line``."""
    order = Window.partitionBy("file").orderBy("split").rowsBetween(Window.unboundedPreceding, -1)
    splits = (
        lines.groupBy("file", "split")
        .agg(F.min("row_id").alias("first"), F.count(F.lit(1)).alias("count"))
        .withColumn("before", F.coalesce(F.sum("count").over(order), F.lit(0)))
    )
    # The ids are the same in both passes: Spark splits the same files the same way.
    line = F.col("row_id") - F.col("first") + F.col("before") + 1
    joined = selected.join(F.broadcast(splits), ["file", "split"], "left")
    return joined.withColumn("line", F.coalesce(line, F.lit(0))).drop("first", "count", "before")
