"""Run folders of the laboratory: every run.json below what was given, with the traces and samples beside it.

Rows are expected to be sound. A first pass over a few columns says which names occur and how many rows there are; the
rows are then read once, without those that cannot be used, and only when some are missing in the end are they looked
for, to be named in the rejects. A file that cannot be read is named there, too, and the rest goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from stafette.errors import InvalidRequest
from stafette.pipeline.fingerprint import fingerprint
from stafette.pipeline.schema import REJECTED_TEXT, REJECTS, ROWS, check, small
from stafette.pipeline.sources import files, record, samples
from stafette.pipeline.sources.base import NAMES, BadFile, Run, Source
from stafette.runs.layout import RUN_FILE, TRACES
from stafette.runs.outcomes import TIERS
from stafette.trace import PHASES

KIND = "native"


def read(
    spark: SparkSession, folders: Sequence[str | Path], *, unfinished: bool = False, kept: Container[str] = ()
) -> Source:
    """Read all runs below the folders. Runs that are not done are listed; their rows only if asked for.

    Runs whose fingerprint is among those that are `kept` are not read.
    """
    addresses = list(dict.fromkeys(map(files.address, folders)))
    runs, bad_records = _records(spark, files.below(spark, addresses, RUN_FILE))
    if not runs:
        told = "; ".join(f"{bad.file} {bad.reason}" for bad in bad_records)
        raise InvalidRequest(told or f"there is no {RUN_FILE} in {', '.join(addresses)} or below; give folders of runs")
    runs = _newest(runs)
    wanted = {run.folder: run.run for run in runs if unfinished or run.state == record.DONE}
    listed = files.listings(spark, list(wanted), "*.parquet")
    fingerprints = {
        run: fingerprint(KIND, str(listed[traces]))
        for folder, run in wanted.items()
        if (traces := f"{folder}/{TRACES}") in listed
    }
    fresh = {f"{folder}/{TRACES}": run for folder, run in wanted.items() if run in fingerprints}
    fresh = {folder: run for folder, run in fresh.items() if fingerprints[run] not in kept}
    whole = Source(
        small(spark, [], ROWS),
        small(spark, [], REJECTS),
        runs,
        samples.read(spark, listed, wanted),
        fingerprints=fingerprints,
        fresh=list(fresh.values()),
        bad=bad_records,
        bytes=sum(listing.bytes for listing in listed.values()),
    )
    filled = sum(listed[folder].files for folder in fresh)
    nothing = [
        BadFile(path, "cannot be read: it is empty") for path in files.empty(spark, list(fresh), "*.parquet", filled)
    ]
    return _with_rows(spark, whole, fresh, nothing) if fresh else whole


def _with_rows(spark: SparkSession, source: Source, fresh: Mapping[str, str], bad: Sequence[BadFile]) -> Source:
    """The source with the rows of its fresh runs, by their folders, but not those in bad files."""
    traces = parquet(spark, list(fresh), ROWS)
    census, bad = files.retry(lambda worse: _census(files.without(traces, worse)).collect(), bad)
    for row in census:
        if files.plain(row["folder"]) not in fresh:
            raise InvalidRequest(f"{files.plain(row['folder'])} is a folder within traces; move it out of the run")
    odd = any(None in tuple(row) or row["run"] != fresh[files.plain(row["folder"])] for row in census)
    rows = files.without(traces, bad)
    checked = _checked(rows, fresh)
    good = checked.where(F.col("reason").isNull()) if odd else rows.where(problem().isNull())
    return replace(
        source,
        rows=check(good, ROWS),
        rejects=_rejects(checked).unionByName(files.bad_files(spark, bad)),
        names=sorted({tuple(row[name] for name in NAMES) for row in census if None not in tuple(row)}),
        expected=None if bad else sum(row["count"] for row in census),  # bad files are to be named in the rejects
        without=lambda worse: _with_rows(spark, source, fresh, [*bad, worse]),
    )


def _newest(runs: Sequence[Run]) -> list[Run]:
    """Without the attempts that failed or were broken off and were made again with success."""

    def place(run: Run) -> tuple[str, str, int]:
        return run.run.rpartition("/")[0], run.label, run.repetition

    made = {place(run) for run in runs if run.state == record.DONE}
    return [run for run in runs if run.state == record.DONE or place(run) not in made]


def problem() -> Column:
    """Why a row cannot be used, or null. It looks at every column, so that a file that passed is sound."""
    wrong = {f"it has no {field.name}": F.col(field.name).isNull() for field in ROWS if not field.nullable}
    wrong |= {
        "there is no such tier": ~F.col("tier").isin(*TIERS),
        "request is negative": F.col("request") < 0,
        "it was to start before the epoch": F.col("intended_ns") < 0,
        "it starts before it was to": F.col("start_ns") < F.col("intended_ns"),
        "it ends before it starts": F.col("end_ns") < F.col("start_ns"),
        "bytes are negative": F.col("bytes") < 0,
        "messages are negative": F.col("messages") < 0,
        "its batch is not positive": F.col("batch") < 1,
    }
    wrong |= {f"{phase} is negative": F.col(phase) < 0 for phase in PHASES}
    sentences = iter(wrong.items())
    sentence, condition = next(sentences)
    reason = F.when(condition, F.lit(sentence))
    for sentence, condition in sentences:
        reason = reason.when(condition, F.lit(sentence))
    return reason


def _census(rows: DataFrame) -> DataFrame:
    """How many rows of which names are in each folder."""
    by_file = rows.groupBy(F.col("_metadata.file_path").alias("file"), *NAMES).agg(F.count(F.lit(1)).alias("count"))
    folder = F.regexp_replace("file", "/[^/]*$", "").alias("folder")
    return by_file.groupBy(folder, *NAMES).agg(F.sum("count").alias("count"))


def _checked(rows: DataFrame, fresh: Mapping[str, str]) -> DataFrame:
    """All rows, with file, line and reason."""
    expected = small(rows.sparkSession, list(fresh.items()), "folder string, its string")
    foreign = F.when(F.col("run") != F.col("its"), F.concat(F.lit("it is of the run "), "run"))
    placed = rows.select(
        "*",
        files.file().alias("file"),
        files.folder().alias("folder"),
        (F.col("_metadata.row_index") + 1).alias("line"),
    )
    return placed.join(F.broadcast(expected), "folder").withColumn("reason", F.coalesce(problem(), foreign))


def _rejects(checked: DataFrame) -> DataFrame:
    told = [name for name in ROWS.names if name not in ("run", "node")]  # the file says these
    text = F.left(F.to_json(F.struct(*told)), F.lit(REJECTED_TEXT))
    return check(checked.where(F.col("reason").isNotNull()).withColumn("text", text), REJECTS)


def parquet(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    """Parquet of a schema that we know; folders are not asked for columns in their names."""
    if not paths:
        return small(spark, [], schema)
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    return reader.parquet(*files.escaped(paths))


def _records(spark: SparkSession, paths: Sequence[str]) -> tuple[list[Run], list[BadFile]]:
    texts, bad = files.retry(lambda worse: _whole(spark, sorted(set(paths) - {each.file for each in worse})))
    unread = set(paths) - texts.keys() - {each.file for each in bad}
    bad += [BadFile(path, "is not a record of a run: it is empty") for path in sorted(unread)]
    runs: dict[str, Run] = {}
    for path, text in sorted(texts.items()):
        try:
            run = record.run_of(text, path.rpartition("/")[0])
        except InvalidRequest as error:
            bad.append(BadFile(path, error.sentence))
            continue
        if run.run in runs:
            raise InvalidRequest(
                f"the run {run.run} is in {runs[run.run].folder} and in {run.folder}; give only one of them"
            )
        runs[run.run] = run
    return list(runs.values()), bad


def _whole(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """Files as texts."""
    with contextlib.suppress(OSError, ValueError):  # here they are read at once; elsewhere by Spark
        return {path: Path(path).read_text("utf-8") for path in paths}
    reader = spark.read.option("recursiveFileLookup", "true").text(files.escaped(paths), wholetext=True)
    return {row["file"]: row["value"] for row in reader.select(files.file().alias("file"), "value").collect()}
