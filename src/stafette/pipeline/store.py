"""Stored requests, so that traces are checked, parsed and joined only once.

::

    ROOT/data/added=A/       requests, of all runs that were read together
    ROOT/names/added=A/      the names of their codes
    ROOT/rejects/added=A/    rejected lines
    ROOT/runs/added=A/       the runs, with the fingerprint of their traces: written last
    ROOT/aggregates/added=B/ aggregates of these requests, of each run (aggregates.py)

A run with an unchanged fingerprint is not read again. Of all additions with a run, the newest counts. Everything goes
through Spark's readers and writers, so the root may be on any file system; deleting it is safe.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from stafette.pipeline import requests
from stafette.pipeline.schema import REJECTS, small
from stafette.pipeline.sources.base import NAMES, Source
from stafette.pipeline.sources.files import SPARK_ERRORS, escape, location
from stafette.runs.layout import REQUESTS, TRACES

_RUNS = StructType(
    [StructField("run", StringType()), StructField("fingerprint", StringType()), StructField("written_ns", LongType())]
)
_AGGREGATES = StructType(
    [StructField("key", StringType()), StructField("name", StringType()), StructField("data", BinaryType())]
)
"""The key is of the requests and of all that decides about the table, which is an Arrow stream."""
MEBIBYTE = 1024**2
JOIN_BYTES, RESULT_BYTES = 16 * MEBIBYTE, 64 * MEBIBYTE
"""Bytes of traces for each partition of a shuffle. Rows take four times as much in the join, which hashes partitions of
64 MB; results need fewer columns. More partitions than needed double the time of small inputs."""
FEWEST_PARTITIONS, MOST_PARTITIONS = 32, 10_000
"""Fewer only if the session's shuffles have fewer. With more, a shuffle is of too many blocks; larger partitions are
sorted instead of hashed."""
_PARTITIONS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_OURS = "stafette.partitions"
"""Set in the session while the number of partitions is ours."""
_PARQUET = {
    "parquet.writer.version": "v2",
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in requests.REQUESTS.names
        if name == "request" or name.endswith("_ns")
    },
}
"""Numbers that hardly repeat are written as differences; by default Parquet would try a dictionary of each first."""
_ADDED = StructField("added", StringType())


@dataclass(frozen=True)
class StoredRun:
    """A run, or a whole source, whose requests are stored."""

    added: str
    fingerprint: str
    run_count: int
    """The number of runs in its addition."""


Runs = Mapping[str, StoredRun]
"""Stored runs by id; `""` stands for all runs of a source that does not know them."""


def default_root(folder: str, out: str) -> str:
    """The default folder for requests: in the folder of the traces, or with the results if it is not writable."""
    is_writable = "://" in folder or (Path(folder).is_dir() and os.access(folder, os.W_OK))
    return f"{location(folder if is_writable else out)}/{REQUESTS}"


def stored_runs(spark: SparkSession, root: str) -> dict[str, StoredRun]:
    """The newest addition of each run."""
    rows = sorted(_read(spark, root, "runs", _RUNS).collect(), key=lambda row: int(row["written_ns"]))
    run_counts = Counter(row["added"] for row in rows)
    return {row["run"]: StoredRun(row["added"], row["fingerprint"], run_counts[row["added"]]) for row in rows}


@contextmanager
def own_partitions(spark: SparkSession) -> Iterator[None]:
    """Lets `set_partitions` change the number of partitions of a shuffle in the block, unless the user has set it."""
    if spark.conf.get(_PARTITIONS, None) is not None:
        yield
        return
    spark.conf.set(_OURS, "true")
    try:
        yield
    finally:
        spark.conf.unset(_PARTITIONS)
        spark.conf.unset(_OURS)


def set_partitions(spark: SparkSession, size: int, partition_bytes: int) -> None:
    """Set the number of partitions that so many bytes of traces need."""
    if spark.conf.get(_OURS, None) is None:
        return
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    fewest = min(int(partitions), FEWEST_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(min(max(fewest, size // partition_bytes), MOST_PARTITIONS)))


def add(spark: SparkSession, root: str, source: Source) -> dict[str, StoredRun]:
    """Write the requests of a source's fresh runs as one addition; returns these runs."""
    if source.parsed is None:
        return _add(spark, root, source)
    source.parsed.persist()
    try:
        return _add(spark, root, source)
    finally:
        source.parsed.unpersist()


def _add(spark: SparkSession, root: str, source: Source) -> dict[str, StoredRun]:
    fingerprints = {run: source.fingerprints[run] for run in source.fresh}
    added = uuid4().hex  # two analyses at once do not write to the same folder
    row_counts = Observation(), Observation()
    rows = requests.of_traces(source.rows, paired=source.paired, row_counts=row_counts)
    matched = Observation()
    columns = [F.count(f"{tier}_code").alias(tier) for tier in ("client", "broker")]
    _write(rows.observe(matched, *columns) if source.paired else rows, root, "data", added)
    row_count = sum(map(_observed_rows, row_counts))
    if row_count != source.row_count:
        _write(source.rejects.coalesce(1), root, "rejects", added)
    if source.paired and row_count != sum(matched.get.values()):  # what a tier has twice was matched twice
        _write(requests.of_traces(source.rows, repeated=True), root, "data", added)
    names = small(spark, source.names, ", ".join(f"{name} string" for name in NAMES)) if source.names else source.rows
    _write(requests.names_of(names).coalesce(1), root, "names", added)
    records = [(run, fingerprint, time.time_ns()) for run, fingerprint in fingerprints.items()]
    _write(small(spark, records, _RUNS).coalesce(1), root, "runs", added)
    return {run: StoredRun(added, fingerprint, len(fingerprints)) for run, fingerprint in fingerprints.items()}


def _observed_rows(observation: Observation) -> int:
    """The rows; 0 without an answer, since Spark leaves an empty side of a join out of its plan."""
    try:
        return int(observation.get.get("rows", 0))
    except SPARK_ERRORS:
        return 0


def requests_of(spark: SparkSession, root: str, runs: Runs) -> DataFrame:
    """The requests of stored runs."""
    return _select_runs(spark, _read(spark, root, "data", requests.REQUESTS), runs)


def names_of(spark: SparkSession, root: str, runs: Runs) -> DataFrame:
    """The names of the codes of their requests."""
    return _select_runs(spark, _read(spark, root, "names", requests.NAMES), runs)


def rejects_of(spark: SparkSession, root: str, runs: Runs, folders: Mapping[str, str]) -> DataFrame:
    """The rejects of stored runs; `folders` has the folder of each run, unless the source does not know its runs."""
    additions = sorted({run.added for run in runs.values()})
    rejects = _read(spark, root, "rejects", REJECTS).where(F.col("added").isin(*additions))
    if "" in runs:
        return rejects.drop("added")
    # A run that was read again has rejects in an older addition, too, which may still count for other runs.
    pairs = [(stored.added, f"{folders[run]}/{TRACES}") for run, stored in runs.items()]
    own = F.broadcast(small(spark, pairs, "added string, folder string"))
    located = rejects.withColumn("folder", F.regexp_replace("file", "/[^/]*$", ""))
    return located.join(own, ["added", "folder"], "left_semi").drop("added", "folder")


def stored_aggregates(spark: SparkSession, root: str, keys: Iterable[str]) -> pa.Table:
    """Key, name and data of the stored aggregates with these keys."""
    aggregates = _read(spark, root, "aggregates", _AGGREGATES)
    return aggregates.where(F.col("key").isin(*keys)).drop("added").toArrow()


def add_aggregates(spark: SparkSession, root: str, rows: Sequence[Sequence[object]]) -> None:
    """Store aggregates: key, name and data."""
    _write(small(spark, rows, _AGGREGATES).coalesce(1), root, "aggregates", uuid4().hex)


def _select_runs(spark: SparkSession, frame: DataFrame, runs: Runs) -> DataFrame:
    """The rows of the runs, each from the run's addition."""
    additions = sorted({run.added for run in runs.values()})
    frame = frame.where(F.col("added").isin(*additions))
    counts = Counter(run.added for run in runs.values())
    if all(counts[run.added] == run.run_count for run in runs.values()):
        return frame.drop("added")
    pairs = small(spark, [(run.added, name) for name, run in runs.items()], "added string, run string")
    codes = pairs.select("added", requests.run_code().alias("run_code"))
    return frame.join(F.broadcast(codes), ["added", "run_code"], "left_semi").drop("added")


def _read(spark: SparkSession, root: str, table: str, schema: StructType) -> DataFrame:
    full_schema = StructType([*schema.fields, _ADDED])
    try:
        frame = spark.read.schema(full_schema).parquet(*escape([f"{root}/{table}"]))
        assert frame.columns  # only now does Spark Connect look for the path
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return small(spark, [], full_schema)
    return frame


def _write(frame: DataFrame, root: str, table: str, added: str) -> None:
    frame.write.mode("overwrite").options(**_PARQUET).parquet(f"{root}/{table}/added={added}")
