"""Run folders of the laboratory: every run.json below the folders, with the traces and samples beside it.

Most rows are valid. A first pass over a few columns counts the rows by name; the valid rows are then read once. Only
if some are missing in the end, another pass finds the invalid ones for the rejects. Unreadable files are among the
rejects, too, and do not stop the analysis.
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
from stafette.pipeline.sources.base import LONGEST_NS, NAMES, BadFile, Run, Source
from stafette.runs.layout import RUN_FILE, TRACES
from stafette.runs.outcomes import TIERS
from stafette.trace import PHASES

KIND = "native"


def read(
    spark: SparkSession, folders: Sequence[str | Path], *, unfinished: bool = False, kept: Container[str] = ()
) -> Source:
    """Read all runs below the folders. `unfinished` says whether to read rows of runs that are not done.

    The traces of runs whose fingerprint is in `kept` are not read.
    """
    locations = list(dict.fromkeys(map(files.location, folders)))
    runs, bad_records = _records(spark, files.find(spark, locations, RUN_FILE))
    if not runs:
        reasons = "; ".join(f"{bad.file} {bad.reason}" for bad in bad_records)
        no_runs = f"there is no {RUN_FILE} in {', '.join(locations)} or below; give folders of runs"
        raise InvalidRequest(reasons or no_runs)
    runs = _newest(runs)
    run_ids = {run.folder: run.run for run in runs if unfinished or run.state == record.DONE}
    listings = files.listings(spark, list(run_ids), "*.parquet")
    fingerprints = {
        run: fingerprint(KIND, str(listings[traces]))
        for folder, run in run_ids.items()
        if (traces := f"{folder}/{TRACES}") in listings
    }
    run_by_traces = {f"{folder}/{TRACES}": run for folder, run in run_ids.items() if run in fingerprints}
    fresh = {folder: run for folder, run in run_by_traces.items() if fingerprints[run] not in kept}
    source = Source(
        small(spark, [], ROWS),
        small(spark, [], REJECTS),
        runs,
        samples.read(spark, listings, run_ids),
        fingerprints=fingerprints,
        fresh=list(fresh.values()),
        bad=bad_records,
        bytes={run: listings[folder].bytes for folder, run in run_by_traces.items()},
    )
    nonempty = sum(listings[folder].files for folder in fresh)
    empty_paths = files.find_empty(spark, list(fresh), "*.parquet", nonempty)
    empty_files = [BadFile(path, "cannot be read: it is empty") for path in empty_paths]
    return _with_rows(spark, source, fresh, empty_files) if fresh else source


def _with_rows(spark: SparkSession, source: Source, fresh: Mapping[str, str], bad: Sequence[BadFile]) -> Source:
    """The source with the rows of its fresh runs, without bad files; `fresh` has the runs by folder of their traces."""
    traces = parquet(spark, list(fresh), ROWS)
    counts, bad = files.retry(lambda bad_files: _count_names(files.without(traces, bad_files)).collect(), bad)
    for row in counts:
        if files.plain(row["folder"]) not in fresh:
            raise InvalidRequest(f"{files.plain(row['folder'])} is a folder within traces; move it out of the run")
    is_mislabelled = any(None in tuple(row) or row["run"] != fresh[files.plain(row["folder"])] for row in counts)
    rows = files.without(traces, bad)
    checked = _with_reasons(rows, fresh)
    valid = checked.where(F.col("reason").isNull()) if is_mislabelled else rows.where(_reason().isNull())
    return replace(
        source,
        rows=check(valid, ROWS),
        rejects=_rejects(checked).unionByName(files.bad_files(spark, bad)),
        names=sorted({tuple(row[name] for name in NAMES) for row in counts if None not in tuple(row)}),
        row_count=None if bad else sum(row["count"] for row in counts),  # None: so that rejects are written
        without=lambda bad_file: _with_rows(spark, source, fresh, [*bad, bad_file]),
    )


def _newest(runs: Sequence[Run]) -> list[Run]:
    """Without attempts that failed or were interrupted, if another attempt is done."""

    def repetition(run: Run) -> tuple[str, str, int]:
        return run.run.rpartition("/")[0], run.label, run.repetition

    done = {repetition(run) for run in runs if run.state == record.DONE}
    return [run for run in runs if run.state == record.DONE or repetition(run) not in done]


def _reason() -> Column:
    """Why a row is rejected, or null. It reads all columns, so that a file with an unreadable one fails here."""
    conditions = {f"it has no {field.name}": F.col(field.name).isNull() for field in ROWS if not field.nullable}
    conditions |= {
        "there is no such tier": ~F.col("tier").isin(*TIERS),
        "request is negative": F.col("request") < 0,
        "it was to start before the epoch": F.col("intended_ns") < 0,
        "it starts before it was to": F.col("start_ns") < F.col("intended_ns"),
        "it ends before it starts": F.col("end_ns") < F.col("start_ns"),
        "it takes more than 31 days": F.col("end_ns") - F.col("intended_ns") > LONGEST_NS,
        "bytes are negative": F.col("bytes") < 0,
        "messages are negative": F.col("messages") < 0,
        "its batch is not positive": F.col("batch") < 1,
    }
    conditions |= {f"{phase} is negative": F.col(phase) < 0 for phase in PHASES}
    pairs = iter(conditions.items())
    text, condition = next(pairs)
    reason = F.when(condition, F.lit(text))
    for text, condition in pairs:
        reason = reason.when(condition, F.lit(text))
    return reason


def _count_names(rows: DataFrame) -> DataFrame:
    """The number of rows by folder and names."""
    by_file = rows.groupBy(F.col("_metadata.file_path").alias("file"), *NAMES).agg(F.count(F.lit(1)).alias("count"))
    folder = F.regexp_replace("file", "/[^/]*$", "").alias("folder")
    return by_file.groupBy(folder, *NAMES).agg(F.sum("count").alias("count"))


def _with_reasons(rows: DataFrame, fresh: Mapping[str, str]) -> DataFrame:
    """All rows, with file, line and reason."""
    expected = small(rows.sparkSession, list(fresh.items()), "folder string, expected_run string")
    foreign = F.when(F.col("run") != F.col("expected_run"), F.concat(F.lit("it is of the run "), "run"))
    located = rows.select(
        "*",
        files.file().alias("file"),
        files.folder().alias("folder"),
        (F.col("_metadata.row_index") + 1).alias("line"),
    )
    return located.join(F.broadcast(expected), "folder").withColumn("reason", F.coalesce(_reason(), foreign))


def _rejects(checked: DataFrame) -> DataFrame:
    columns = [name for name in ROWS.names if name not in ("run", "node")]  # these follow from the file
    text = F.left(F.to_json(F.struct(*columns)), F.lit(REJECTED_TEXT))
    return check(checked.where(F.col("reason").isNotNull()).withColumn("text", text), REJECTS)


def parquet(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    """Parquet of a given schema; names of folders are not read as columns."""
    if not paths:
        return small(spark, [], schema)
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    return reader.parquet(*files.escape(paths))


def _records(spark: SparkSession, paths: Sequence[str]) -> tuple[list[Run], list[BadFile]]:
    texts, bad = files.retry(lambda bad: _texts(spark, sorted(set(paths) - {bad_file.file for bad_file in bad})))
    empty_paths = set(paths) - texts.keys() - {bad_file.file for bad_file in bad}
    bad += [BadFile(path, "is not a record of a run: it is empty") for path in sorted(empty_paths)]
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


def _texts(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """The texts of files."""
    with contextlib.suppress(OSError, ValueError):  # local files are read at once, others by Spark
        return {path: Path(path).read_text("utf-8") for path in paths}
    reader = spark.read.option("recursiveFileLookup", "true").text(files.escape(paths), wholetext=True)
    return {row["file"]: row["value"] for row in reader.select(files.file().alias("file"), "value").collect()}
