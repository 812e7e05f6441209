"""Run folders of the laboratory: every run.json below what was given, with the traces and samples beside it.

Before anything else one pass looks at all rows, file by file, and learns the names in them. Files without fault, nearly
always all of them, are then read as they are, with only the columns that a question needs. Rows are checked one by one
only in files that have bad ones, and a file that cannot be read is left out: both go to the rejects, and the rest goes
on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import REJECTED_TEXT, REJECTS, ROWS, check, small
from stafette.pipeline.sources import files, record, samples
from stafette.pipeline.sources.base import Run, Source
from stafette.pipeline.transforms.counts import NAMES, Names
from stafette.runs.layout import RUN_FILE, TRACES
from stafette.runs.outcomes import TIERS
from stafette.trace import PHASES


def read(spark: SparkSession, folders: Sequence[str | Path], *, unfinished: bool = False) -> Source:
    """Read all runs below the folders. Runs that are not done are listed; their rows only if asked for."""
    addresses = list(dict.fromkeys(map(files.address, folders)))
    found = files.below(spark, addresses, f"{{{RUN_FILE},*.parquet}}")
    runs, bad_records = _records(spark, [path for path in found if _name(path) == RUN_FILE])
    if not runs:
        told = "; ".join(f"{bad.file} {bad.reason}" for bad in bad_records)
        raise InvalidRequest(told or f"there is no {RUN_FILE} in {', '.join(addresses)} or below; give folders of runs")
    runs = _newest(runs)
    wanted = {run.folder: run.run for run in runs if unfinished or run.state == record.DONE}
    traces = _traces(spark, [path for path in found if _run_folder(path) in wanted], wanted)
    taken, bad_samples = samples.read(spark, found, wanted)
    bad = [*bad_records, *traces.bad, *bad_samples]
    return Source(traces.rows, traces.rejects.unionByName(files.bad_files(spark, bad)), runs, taken, traces.names)


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


@dataclass(frozen=True)
class _Traces:
    rows: DataFrame
    rejects: DataFrame
    bad: Sequence[files.BadFile]
    names: Sequence[Names]


def _traces(spark: SparkSession, paths: Sequence[str], wanted: Mapping[str, str]) -> _Traces:
    def look(some: Sequence[str]) -> list[tuple[str, Names, int]]:
        groups = parquet(spark, some, ROWS).groupBy(F.col("_metadata.file_path").alias("file"), *NAMES)
        found = groups.agg(F.count(problem())).collect()
        return [(files.plain(file), (run, tier, does, came), bad) for file, run, tier, does, came, bad in found]

    census, bad = files.sift(paths, look)
    faulty = {file for file, (run, *_), problems in census if problems or run != wanted[_parent(_parent(file))]}
    sound = sorted({file for file, _, _ in census} - faulty)
    names = sorted({its for _, its, _ in census if None not in its})
    rows = check(parquet(spark, _short(sound, paths), ROWS), ROWS)
    if not faulty:
        return _Traces(rows, small(spark, [], REJECTS), bad, names)
    checked = _checked(spark, sorted(faulty), wanted)
    kept = check(checked.where(F.col("reason").isNull()), ROWS)
    return _Traces(rows.unionByName(kept) if sound else kept, _rejects(checked), bad, names)


def _checked(spark: SparkSession, faulty: Sequence[str], wanted: Mapping[str, str]) -> DataFrame:
    """The rows of files that have bad ones, with file, line and reason."""
    its = [(file, wanted[_parent(_parent(file))]) for file in faulty]
    expected = small(spark, its, "file string, its string")
    foreign = F.when(F.col("run") != F.col("its"), F.concat(F.lit("it is of the run "), "run"))
    rows = parquet(spark, faulty, ROWS).select(
        "*", files.file().alias("file"), (F.col("_metadata.row_index") + 1).alias("line")
    )
    return rows.join(F.broadcast(expected), "file").withColumn("reason", F.coalesce(problem(), foreign))


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


def _records(spark: SparkSession, paths: Sequence[str]) -> tuple[list[Run], list[files.BadFile]]:
    def look(some: Sequence[str]) -> list[tuple[str, str]]:
        with contextlib.suppress(OSError, ValueError):  # here they are read at once; elsewhere by Spark
            return [(path, Path(path).read_text("utf-8")) for path in some]
        reader = spark.read.option("recursiveFileLookup", "true").text(files.escaped(some), wholetext=True)
        return [(row["file"], row["value"]) for row in reader.select(files.file().alias("file"), "value").collect()]

    texts, bad = files.sift(paths, look)
    unread = set(paths) - {path for path, _ in texts} - {each.file for each in bad}
    bad += [files.BadFile(path, "is not a record of a run: it is empty") for path in sorted(unread)]
    runs: dict[str, Run] = {}
    for path, text in sorted(texts):
        try:
            run = record.run_of(text, path.rpartition("/")[0])
        except InvalidRequest as error:
            bad.append(files.BadFile(path, error.sentence))
            continue
        if run.run in runs:
            raise InvalidRequest(
                f"the run {run.run} is in {runs[run.run].folder} and in {run.folder}; give only one of them"
            )
        runs[run.run] = run
    return list(runs.values()), bad


def _short(chosen: Sequence[str], found: Sequence[str]) -> list[str]:
    """The chosen files, by their folder where all that were found in it are chosen: Spark lists folders faster."""
    missing = {_parent(path) for path in set(found) - set(chosen)}
    return list(dict.fromkeys(path if _parent(path) in missing else _parent(path) for path in chosen))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _run_folder(path: str) -> str | None:
    """The folder of the run that a trace file belongs to."""
    folder = _parent(path)
    return _parent(folder) if _name(folder) == TRACES and path.endswith(".parquet") else None
