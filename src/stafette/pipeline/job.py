"""An analysis, from traces to result tables: read, check, reduce, model, write.

Spark sees the rows; what it gives back is small, and the rest is numpy. It makes few jobs, because small inputs, which
are most, cost little but the making of them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InvalidRequest
from stafette.pipeline import counting, models, over_runs, run_checks
from stafette.pipeline.options import Options
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.sources.base import Run, Source
from stafette.pipeline.transforms import samples, tiers
from stafette.pipeline.transforms.counts import Names
from stafette.report import result_files, result_tables
from stafette.runs.window import SECOND, Window

MOST_WINDOWS = 200_000
"""Over all runs: the table of windows is to fit into memory."""
MOST_REJECTS = 10_000
"""Rejected lines that are kept; the others are counted."""
DATABASE = "database"


@dataclass(frozen=True)
class Analysis:
    """What came of it."""

    tables: Mapping[str, pa.Table]
    facts: Mapping[str, Any]
    out: Path | None = None


@dataclass
class _Clock:
    """How long each step took."""

    progress: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.progress(name)
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 3)


def analyze(
    spark: SparkSession,
    read: Callable[[SparkSession], Source],
    *,
    out: Path | None = None,
    options: Options | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Analysis:
    """Analyse what a source gives, and write the results if there is a place for them."""
    clock, options = _Clock(progress), options or Options()
    with clock.step("read"):
        source = read(spark)
        spans = spans_of(source, options)
    with clock.step("count"):
        counted = counting.count(source.rows, spans, options.limits_us, options.level, source.names)
        if options.warm_up == "auto":
            spans = _warmed_up(spans, counted.windows)
            counted = counting.count(source.rows, spans, options.limits_us, options.level, source.names)
    found = {name: getattr(counted, name) for name in ("summary", "windows", "shares", "distribution")}
    with clock.step("join"):
        found |= _tiers(source, spans, counted.names)
    with clock.step("samples"):
        found |= _samples(source, spans)
        rejects, rejected = _rejects(source.rejects)
        found["rejects"] = rejects
    with clock.step("model"):
        concluded, notes = _conclusions(source.runs, spans, found, options)
        found |= concluded
    facts = _facts(source, spans, found, options) | {
        "rows": counted.rows, "rejected": rejected, "notes": notes, "seconds": clock.seconds,
    }  # fmt: skip
    if out is not None:
        with clock.step("write"):
            result_files.write(out, found, facts)
    return Analysis(found, facts, out)


# Read


def spans_of(source: Source, options: Options) -> list[RunTimes]:
    """When each run was under load and what of it counts; of runs that do not say, as their rows say."""
    runs = [run for run in source.runs if run.state == "done"]
    if not runs:
        raise InvalidRequest("no run is done; wait for one to end, or use --follow")
    unknown = [run.run for run in runs if run.load is None]
    loads = {run.run: run.load for run in runs if run.load is not None}
    if unknown:
        seen = source.rows.where(F.col("run").isin(unknown)).groupBy("run")
        loads |= {
            run: Window(first, last + 1)
            for run, first, last in seen.agg(F.min("intended_ns"), F.max("end_ns")).collect()
        }
    window_ns = round(options.window_s * SECOND)
    spans = [_times(run, loads[run.run], window_ns, options) for run in runs if run.run in loads]
    if not spans:
        raise InvalidRequest("no run has any rows; look into its logs")
    if sum(span.windows for span in spans) > MOST_WINDOWS:
        longer = options.window_s * sum(span.windows for span in spans) / MOST_WINDOWS
        raise InvalidRequest(f"there would be more than {MOST_WINDOWS:,} windows; use --window {longer:.0f} or longer")
    return spans


def _times(run: Run, load: Window, window_ns: int, options: Options) -> RunTimes:
    measured = run.window or load
    if isinstance(options.warm_up, float | int):
        start = load.start_ns + round(options.warm_up * SECOND)
        if start >= measured.end_ns:
            raise InvalidRequest(f"the warm-up of {run.run} is as long as its load; give a shorter one")
        measured = Window(start, measured.end_ns)
    return RunTimes(run.run, load, measured, window_ns)


def _warmed_up(spans: Sequence[RunTimes], windows: pa.Table) -> list[RunTimes]:
    """The same, measured from where MSER-5 sees the end of the warm-up; as given where it sees none."""
    found = {row["run"]: row["found_s"] for row in run_checks.warm_ups(spans, windows).to_pylist()}
    return [
        span if found[span.run] is None
        else replace(span, measured=Window(_after(span, found[span.run]), span.measured.end_ns))
        for span in spans
    ]  # fmt: skip


def _after(span: RunTimes, seconds: float) -> int:
    return span.load.start_ns + round(seconds * SECOND)


# Reduce


def _tiers(source: Source, spans: Sequence[RunTimes], names: Sequence[Names]) -> dict[str, pa.Table]:
    """The tables of both tiers together."""
    named = {(run, operation, outcome) for run, _, operation, outcome in names}
    joined = tiers.joined(source.rows, spans, sorted(named)).toArrow().to_pylist()
    sums = dict.fromkeys(("clients", "brokers", "both", "never_sent"), 0)
    by_run: dict[str, dict[str, int]] = {}
    for row in joined:
        mine = by_run.setdefault(row["run"], dict(sums))
        for name in sums:
            mine[name] += row[name]
    joins = [
        {"run": run, "client_rows": mine["clients"], "broker_rows": mine["brokers"], "joined": mine["both"]}
        | {"client_only": mine["clients"] - mine["both"] - mine["never_sent"]}
        | {"broker_only": mine["brokers"] - mine["both"], "never_sent": mine["never_sent"]}
        for run, mine in sorted(by_run.items())
    ]
    columns = result_tables.TABLES["breakdown"].names
    parts = [{name: row[name] for name in columns} for row in joined if row["count"]]
    parts.sort(key=lambda row: (row["run"], row["operation"], row["outcome"]))
    return {"joins": result_tables.table("joins", joins), "breakdown": result_tables.table("breakdown", parts)}


def _samples(source: Source, spans: Sequence[RunTimes]) -> dict[str, pa.Table]:
    if source.samples is None:
        return {name: result_tables.TABLES[name].empty_table() for name in ("queues", "costs")}
    queues = samples.queues(source.samples.queues, spans).toArrow()
    costs = samples.costs(source.samples.processes, spans).toArrow()
    return {
        "queues": queues.cast(result_tables.TABLES["queues"]).sort_by(
            [("run", "ascending"), ("second", "ascending"), ("queue", "ascending")]
        ),
        "costs": costs.cast(result_tables.TABLES["costs"]).sort_by(
            [("run", "ascending"), ("second", "ascending"), ("process", "ascending")]
        ),
    }


def _rejects(rejects: DataFrame) -> tuple[pa.Table, int]:
    kept = rejects.limit(MOST_REJECTS).toArrow().cast(result_tables.TABLES["rejects"])
    return kept, rejects.count() if kept.num_rows == MOST_REJECTS else kept.num_rows


# Model


def _conclusions(
    runs: Sequence[Run], spans: Sequence[RunTimes], found: Mapping[str, pa.Table], options: Options
) -> tuple[dict[str, pa.Table], list[str]]:
    measured = over_runs.measured(runs, found["summary"])
    busy, network = busy_cores(spans, found["costs"]), _network(found["breakdown"])
    effects, why_no_effects = over_runs.effects(measured, options.level)
    predicted, why_no_models = models.models(measured, busy, network, options.level)
    concluded = {
        "points": over_runs.points(measured, options.level),
        "curves": over_runs.curves(measured, options.level),
        "effects": effects,
        "models": predicted,
        "laws": run_checks.laws(runs, found["summary"], found["breakdown"], busy),
        "warm_up": run_checks.warm_ups(spans, found["windows"]),
        "stationarity": run_checks.stationary(spans, found["windows"]),
    }
    return concluded, [*why_no_effects, *why_no_models]


def busy_cores(spans: Sequence[RunTimes], costs: pa.Table) -> dict[str, dict[str, float]]:
    """Cores that all brokers, and the database, used on average over the measured window of each run."""
    found: dict[str, dict[str, float]] = {}
    for span in spans:
        begin, end = map(span.since_load_s, (span.measured.start_ns, span.measured.end_ns))
        inside = pc.and_(pc.greater_equal(costs["second"], begin), pc.less(costs["second"], end))
        mine = costs.filter(pc.and_(pc.equal(costs["run"], span.run), inside))
        means = mine.group_by("process").aggregate([("cpu_share", "mean")]).to_pylist()
        for row in means:
            part = (
                DATABASE
                if row["process"].startswith(DATABASE)
                else "broker"
                if row["process"].startswith("broker")
                else None
            )
            if part is not None:
                mine_by_part = found.setdefault(span.run, {})
                mine_by_part[part] = mine_by_part.get(part, 0.0) + row["cpu_share_mean"]
    return found


def _network(breakdown: pa.Table) -> dict[str, float]:
    """Seconds per request that neither tier explains."""
    found: dict[str, tuple[int, float]] = {}
    for row in breakdown.to_pylist():
        count, total = found.get(row["run"], (0, 0.0))
        found[row["run"]] = (count + row["count"], total + row["count"] * row["unexplained_ms"] / 1000)
    return {run: total / count for run, (count, total) in found.items() if count}


# Write


def _facts(
    source: Source, spans: Sequence[RunTimes], found: Mapping[str, pa.Table], options: Options
) -> dict[str, Any]:
    by_run = {span.run: span for span in spans}
    return {
        "format": 1,
        "versions": {
            "stafette": version("stafette"), "python": platform.python_version(), "spark": pyspark.__version__,
        },
        "options": {
            "window_s": options.window_s, "limits_ms": list(options.limits_ms), "level": options.level,
            "warm_up": options.warm_up,
        },
        "runs": [_run_facts(run, by_run.get(run.run)) for run in source.runs],
        "totals": {name: table.num_rows for name, table in sorted(found.items())},
    }  # fmt: skip


def _run_facts(run: Run, span: RunTimes | None) -> dict[str, Any]:
    return {
        "run": run.run, "experiment": run.experiment, "label": run.label, "levels": dict(run.levels),
        "repetition": run.repetition, "design": run.design, "state": run.state, "why": run.why, "valid": run.valid,
        "sentences": list(run.sentences), "clients": dict(run.clients), "think_time_s": run.think_time_s,
        "brokers": run.brokers, "settings": dict(run.settings), "folder": run.folder,
        "load": None if span is None else [span.load.start_ns, span.load.end_ns],
        "window": None if span is None else [span.measured.start_ns, span.measured.end_ns],
    }  # fmt: skip
