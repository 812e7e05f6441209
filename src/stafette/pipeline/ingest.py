"""From traces to requests: new traces are read, checked and joined; stored requests are taken as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from stafette.errors import InvalidRequest
from stafette.pipeline import store
from stafette.pipeline.options import Options
from stafette.pipeline.run_tables import Names
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import small
from stafette.pipeline.sources import files
from stafette.pipeline.sources.base import Run, Source
from stafette.pipeline.sources.inferred_runs import runs_of
from stafette.runs.window import SECOND, Window

MOST_WINDOWS = 200_000
"""The limit over all runs: the table of windows has to fit into memory."""
_GROUP_COLUMNS = ("code", "answered_code", "tier", "operation", "outcome")


class Reader(Protocol):
    """Reads a source without the runs whose fingerprint is in `kept`."""

    def __call__(self, spark: SparkSession, *, kept: frozenset[str]) -> Source:
        """The source."""
        ...


@dataclass(frozen=True)
class Requests:
    """The requests of runs, and what the results need besides."""

    root: str
    source: Source
    stored: store.Runs
    frame: DataFrame
    rejects: DataFrame
    runs: Sequence[Run]
    names: Names
    groups: DataFrame
    """The codes with their names, from `results.group_names`."""

    def addition(self, run: str) -> str | None:
        """The addition with the requests of a run; None if it has none."""
        stored_run = self.stored.get("", self.stored.get(run))
        return stored_run.added if stored_run is not None else None

    def of_runs(self, runs: Sequence[str]) -> DataFrame:
        """The requests of these runs, or of all if the source does not know its runs; partitions are of their size."""
        spark, keys = self.frame.sparkSession, [""] if "" in self.stored else runs
        store.set_partitions(spark, sum(self.source.bytes.get(key, 0) for key in keys), store.RESULT_BYTES)
        if len(keys) == len(self.stored):
            return self.frame
        return store.requests_of(spark, self.root, {run: self.stored[run] for run in keys})


def ingest(spark: SparkSession, read: Reader, root: str) -> Requests:
    """The requests of a source: those of new traces are added to the ones that are stored below `root`."""
    stored_runs = store.stored_runs(spark, root)
    source = read(spark, kept=frozenset(run.fingerprint for run in stored_runs.values()))
    if source.fresh:
        store.set_partitions(spark, sum(source.bytes.get(run, 0) for run in source.fresh), store.JOIN_BYTES)
        stored_runs |= _add(spark, root, source)
    runs = {run: stored_runs[run] for run in source.fingerprints if run in stored_runs}
    if not runs:
        raise InvalidRequest("no run is done, or none has any rows; wait for one to end, or use --follow")
    frame = store.requests_of(spark, root, runs)
    name_rows = store.names_of(spark, root, runs).toArrow().to_pylist()
    names = Names(
        {row["run_code"]: row["run"] for row in name_rows},
        {row["code"]: (row["tier"], row["operation"], row["outcome"]) for row in name_rows},
    )
    return Requests(
        root,
        source,
        runs,
        frame,
        store.rejects_of(spark, root, runs, {run.run: run.folder for run in source.runs}),
        source.runs or runs_of(frame, names.runs, source.folders),
        names,
        _groups(spark, name_rows),
    )


def _groups(spark: SparkSession, name_rows: Sequence[Mapping[str, object]]) -> DataFrame:
    rows = {row["code"]: tuple(row[name] for name in _GROUP_COLUMNS) for row in name_rows}
    return small(spark, rows.values(), "code long, answered_code long, tier string, operation string, outcome string")


def _add(spark: SparkSession, root: str, source: Source) -> dict[str, store.StoredRun]:
    """Add the source's fresh runs; unreadable files are left out, and are among the rejects."""
    bad_count = 0
    while True:
        try:
            return store.add(spark, root, source)
        except files.SPARK_ERRORS as error:
            bad_file = files.unreadable_file(error)
            bad_count += 1
            if bad_file is None or source.without is None:
                raise
            files.check_bad_count(bad_count, bad_file)
            source = source.without(bad_file)


def spans_of(runs: Sequence[Run], options: Options) -> list[RunTimes]:
    """The load and the measured window of each run."""
    window_ns = round(options.window_s * SECOND)
    spans = [_times(run, run.load, window_ns, options) for run in runs if run.state == "done" and run.load is not None]
    if not spans:
        raise InvalidRequest("no run has any rows; look into its logs")
    return spans


def check_windows(spans: Sequence[RunTimes]) -> None:
    """Raise InvalidRequest if there are more windows than fit into the driver's memory."""
    windows = sum(span.windows for span in spans)
    if windows > MOST_WINDOWS:
        seconds = spans[0].window_ns / SECOND * windows / MOST_WINDOWS
        raise InvalidRequest(f"there would be more than {MOST_WINDOWS:,} windows; use --window {seconds:.0f} or longer")


def _times(run: Run, load: Window, window_ns: int, options: Options) -> RunTimes:
    measured = run.window or load
    if isinstance(options.warm_up, float | int):
        start = load.start_ns + round(options.warm_up * SECOND)
        if start >= measured.end_ns:
            raise InvalidRequest(f"the warm-up of {run.run} is as long as its load; give a shorter one")
        measured = Window(start, measured.end_ns)
    return RunTimes(run.run, load, measured, window_ns)
