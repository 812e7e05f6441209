"""Requests that are kept, so that traces are checked, parsed and joined only once.

::

    ROOT/data/added=A/       requests, of all runs that were read together
    ROOT/names/added=A/      what their codes stand for
    ROOT/rejects/added=A/    lines that could not be used
    ROOT/runs/added=A/       the runs, with the fingerprint of their traces: written last

A run whose fingerprint is still the same is not read again. What was added counts for a run while nothing newer has
it. Everything goes through Spark's readers and writers, so the root may be on any file system; deleting it is safe.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType

from stafette.pipeline import requests
from stafette.pipeline.schema import REJECTS, small
from stafette.pipeline.sources.base import NAMES, Source
from stafette.pipeline.sources.files import address, escaped
from stafette.runs.layout import REQUESTS, TRACES

_RUNS = StructType(
    [StructField("run", StringType()), StructField("fingerprint", StringType()), StructField("written_ns", LongType())]
)
MEBIBYTE = 1024**2
JOIN_BYTES, RESULT_BYTES = 16 * MEBIBYTE, 64 * MEBIBYTE
"""Of traces, for each part of a shuffle. Rows take four times as much in the join, which hashes parts of 64 MB; results
are made of fewer columns. More parts than needed double the time of small inputs."""
FEWEST_PARTS = 32
"""Or as many as the session's shuffles have, if these are fewer."""
_PARTS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_PARQUET = {
    "parquet.writer.version": "v2",
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in requests.REQUESTS.names
        if name == "request" or name.endswith("_ns")
    },
}
"""Numbers that hardly repeat are written as differences at once; Parquet would try a dictionary of each first."""
_ADDED = StructField("added", StringType())


@dataclass(frozen=True)
class Kept:
    """A run, or a whole source, whose requests are kept."""

    added: str
    fingerprint: str
    together: int
    """How many runs were added with it."""


Runs = Mapping[str, Kept]
"""By the id of the run; `""` stands for all runs of a source that does not know them."""


def default_root(folder: str, out: str) -> str:
    """Where requests of a folder are kept if nobody says it: in it, or with the results if it cannot be written to."""
    own = "://" in folder or (Path(folder).is_dir() and os.access(folder, os.W_OK))
    return f"{address(folder if own else out)}/{REQUESTS}"


def kept(spark: SparkSession, root: str) -> dict[str, Kept]:
    """What was added last of each run."""
    rows = sorted(_read(spark, root, "runs", _RUNS).collect(), key=lambda row: int(row["written_ns"]))
    together = Counter(row["added"] for row in rows)
    return {row["run"]: Kept(row["added"], row["fingerprint"], together[row["added"]]) for row in rows}


@contextmanager
def own_parts(spark: SparkSession) -> Iterator[None]:
    """The number of parts of a shuffle is ours until the end of this; then it is as before."""
    before = spark.conf.get(_PARTS, None)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_PARTS)
        else:
            spark.conf.set(_PARTS, before)


def set_parts(spark: SparkSession, size: int, part_bytes: int) -> None:
    """As many parts as so many bytes of traces need."""
    parts = spark.conf.get("spark.sql.shuffle.partitions")
    assert parts is not None
    spark.conf.set(_PARTS, str(max(min(int(parts), FEWEST_PARTS), size // part_bytes)))


def add(spark: SparkSession, root: str, source: Source) -> dict[str, Kept]:
    """Write the requests of a source's fresh rows at once; the runs they are of."""
    if source.parsed is None:
        return _add(spark, root, source)
    source.parsed.persist()
    try:
        return _add(spark, root, source)
    finally:
        source.parsed.unpersist()


def _add(spark: SparkSession, root: str, source: Source) -> dict[str, Kept]:
    prints = {run: source.fingerprints[run] for run in source.fresh}
    added = uuid4().hex  # two analyses at once do not write to the same folder
    count = _add_requests(source, root, added)
    if source.expected is None or count != source.expected:
        rejected = _counted_write(source.rejects.coalesce(1), root, "rejects", added)
        expected = source.rows.count() if source.expected is None else source.expected - rejected
        if source.paired and count != expected:  # a request that a tier has twice was matched twice
            _add_requests(source, root, added, repeated=True)
    names = small(spark, source.names, ", ".join(f"{name} string" for name in NAMES)) if source.names else source.rows
    _write(requests.names_of(names).coalesce(1), root, "names", added)
    rows = [(run, fingerprint, time.time_ns()) for run, fingerprint in prints.items()]
    _write(small(spark, rows, _RUNS).coalesce(1), root, "runs", added)
    return {run: Kept(added, fingerprint, len(prints)) for run, fingerprint in prints.items()}


def _add_requests(source: Source, root: str, added: str, *, repeated: bool = False) -> int:
    """Write them; how many rows of traces are in them."""
    rows = requests.of_traces(source.rows, paired=source.paired, repeated=repeated)
    seen = Observation()
    columns = [F.count(f"{tier}_code").alias(tier) for tier in ("client", "broker")]
    _write(rows.observe(seen, *columns), root, "data", added)
    return sum(seen.get.values())


def requests_of(spark: SparkSession, root: str, runs: Runs) -> DataFrame:
    """The requests of runs that are kept."""
    return _chosen(spark, _read(spark, root, "data", requests.REQUESTS), runs)


def names_of(spark: SparkSession, root: str, runs: Runs) -> DataFrame:
    """What the codes of their requests stand for."""
    return _chosen(spark, _read(spark, root, "names", requests.NAMES), runs)


def rejects_of(spark: SparkSession, root: str, runs: Runs, folders: Mapping[str, str]) -> DataFrame:
    """What could not be used when they were read; `folders` are those of the runs, where these are known."""
    additions = sorted({run.added for run in runs.values()})
    rejects = _read(spark, root, "rejects", REJECTS).where(F.col("added").isin(*additions))
    if "" in runs:
        return rejects.drop("added")
    # A run that was read again has rejects in an older addition, too, which may still count for other runs.
    pairs = [(kept.added, f"{folders[run]}/{TRACES}") for run, kept in runs.items()]
    own = F.broadcast(small(spark, pairs, "added string, folder string"))
    placed = rejects.withColumn("folder", F.regexp_replace("file", "/[^/]*$", ""))
    return placed.join(own, ["added", "folder"], "left_semi").drop("added", "folder")


def _chosen(spark: SparkSession, frame: DataFrame, runs: Runs) -> DataFrame:
    """Rows of what counts, each for its own runs."""
    additions = sorted({run.added for run in runs.values()})
    frame = frame.where(F.col("added").isin(*additions))
    counts = Counter(run.added for run in runs.values())
    if all(counts[run.added] == run.together for run in runs.values()):
        return frame.drop("added")
    pairs = small(spark, [(run.added, name) for name, run in runs.items()], "added string, run string")
    wanted = pairs.select("added", requests.run_code().alias("run_code"))
    return frame.join(F.broadcast(wanted), ["added", "run_code"], "left_semi").drop("added")


def _read(spark: SparkSession, root: str, table: str, schema: StructType) -> DataFrame:
    whole = StructType([*schema.fields, _ADDED])
    try:
        frame = spark.read.schema(whole).parquet(*escaped([f"{root}/{table}"]))
        assert frame.columns  # Spark Connect looks for the path only now
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return small(spark, [], whole)
    return frame


def _counted_write(frame: DataFrame, root: str, table: str, added: str) -> int:
    seen = Observation()
    _write(frame.observe(seen, F.count(F.lit(1)).alias("count")), root, table, added)
    return int(seen.get["count"])


def _write(frame: DataFrame, root: str, table: str, added: str) -> None:
    frame.write.mode("overwrite").options(**_PARQUET).parquet(f"{root}/{table}/added={added}")
