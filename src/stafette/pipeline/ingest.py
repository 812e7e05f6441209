"""From traces to requests: what is new is read, checked and joined; what is kept is taken as it is."""

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
"""Over all runs: the table of windows is to fit into memory."""
_GROUP_COLUMNS = ("code", "answered_code", "tier", "operation", "outcome")


class Reader(Protocol):
    """Reads a source, but for runs whose fingerprint is among those that are kept."""

    def __call__(self, spark: SparkSession, *, kept: frozenset[str]) -> Source:
        """What was read."""
        ...


@dataclass(frozen=True)
class Requests:
    """What the results are made of."""

    source: Source
    frame: DataFrame
    rejects: DataFrame
    runs: Sequence[Run]
    names: Names
    groups: DataFrame
    """The codes with their names, as `results.group_names` gives them."""


def ingest(spark: SparkSession, read: Reader, root: str) -> Requests:
    """Make requests of what is new, and take those that are kept below `root`."""
    kept = store.kept(spark, root)
    source = read(spark, kept=frozenset(run.fingerprint for run in kept.values()))
    if source.fresh:
        store.set_parts(spark, source.bytes, store.JOIN_BYTES)
        kept |= _added(spark, root, source)
    store.set_parts(spark, source.bytes, store.RESULT_BYTES)
    runs = {run: kept[run] for run in source.fingerprints if run in kept}
    if not runs:
        raise InvalidRequest("no run is done, or none has any rows; wait for one to end, or use --follow")
    frame = store.requests_of(spark, root, runs)
    named = store.names_of(spark, root, runs).toArrow().to_pylist()
    names = Names(
        {row["run_code"]: row["run"] for row in named},
        {row["code"]: (row["tier"], row["operation"], row["outcome"]) for row in named},
    )
    return Requests(
        source,
        frame,
        store.rejects_of(spark, root, runs, {run.run: run.folder for run in source.runs}),
        source.runs or runs_of(frame, names.runs, source.folders),
        names,
        _groups(spark, named),
    )


def _groups(spark: SparkSession, named: Sequence[Mapping[str, object]]) -> DataFrame:
    rows = {row["code"]: tuple(row[name] for name in _GROUP_COLUMNS) for row in named}
    return small(spark, rows.values(), "code long, answered_code long, tier string, operation string, outcome string")


def _added(spark: SparkSession, root: str, source: Source) -> dict[str, store.Kept]:
    """Add the source's fresh runs; a file that turns out to be bad is left out, and named in the rejects."""
    bad = 0
    while True:
        try:
            return store.add(spark, root, source)
        except files.SPARK_ERRORS as error:
            culprit = files.unreadable(error)
            bad += 1
            if culprit is None or source.without is None:
                raise
            files.check_bad(bad, culprit)
            source = source.without(culprit)


def spans_of(runs: Sequence[Run], options: Options) -> list[RunTimes]:
    """When each run was under load and what of it counts."""
    window_ns = round(options.window_s * SECOND)
    spans = [_times(run, run.load, window_ns, options) for run in runs if run.state == "done" and run.load is not None]
    if not spans:
        raise InvalidRequest("no run has any rows; look into its logs")
    return spans


def check_windows(spans: Sequence[RunTimes]) -> None:
    """Refuse more windows than the driver's memory has room for."""
    windows = sum(span.windows for span in spans)
    if windows > MOST_WINDOWS:
        longer = spans[0].window_ns / SECOND * windows / MOST_WINDOWS
        raise InvalidRequest(f"there would be more than {MOST_WINDOWS:,} windows; use --window {longer:.0f} or longer")


def _times(run: Run, load: Window, window_ns: int, options: Options) -> RunTimes:
    measured = run.window or load
    if isinstance(options.warm_up, float | int):
        start = load.start_ns + round(options.warm_up * SECOND)
        if start >= measured.end_ns:
            raise InvalidRequest(f"the warm-up of {run.run} is as long as its load; give a shorter one")
        measured = Window(start, measured.end_ns)
    return RunTimes(run.run, load, measured, window_ns)
