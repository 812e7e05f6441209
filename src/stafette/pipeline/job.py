"""An analysis: traces become requests, requests become result tables.

Spark sees the rows; what it gives back is small, and the rest works on small tables. It makes few jobs, because small
inputs, which are most, cost little but the making of them.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
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

from stafette.pipeline import models, over_runs, results, run_checks, run_tables, sample_tables, store, times
from stafette.pipeline.ingest import Reader, Requests, check_windows, ingest, spans_of
from stafette.pipeline.options import Options
from stafette.pipeline.run_tables import Group, Series
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import REJECTS
from stafette.pipeline.sources import files
from stafette.pipeline.sources.base import BadFile, Run, Source
from stafette.report import result_files, result_tables
from stafette.runs.window import SECOND, Window

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


@files.plain_errors()
def analyze(
    spark: SparkSession,
    read: Reader,
    *,
    requests: str,
    out: Path | None = None,
    options: Options | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Analysis:
    """Analyse what a source gives, and write the results if there is a place for them.

    `requests` is the folder, or a URL that Spark knows, where requests are kept.
    """
    with store.own_parts(spark):
        tables, facts = _analyze(spark, read, requests, options or Options(), clock := _Clock(progress))
    if out is not None:
        with clock.step("write"):
            result_files.write(out, tables, facts)
    return Analysis(tables, facts, out)


def _analyze(
    spark: SparkSession, read: Reader, root: str, options: Options, clock: _Clock
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    with clock.step("read"):
        asked = ingest(spark, read, root)
        spans = spans_of(asked.runs, options)
        check_windows(spans)
    with clock.step("aggregate"):
        if options.warm_up == "auto":
            spans = _warmed_up(spans, _series(asked, spans))
        tables, groups = _run_tables(asked, spans, options)
    with clock.step("samples"):
        sampled, bad_samples = _samples(asked.source, spans)
        tables |= sampled | _rejects(asked.rejects, [*asked.source.bad, *bad_samples])
    with clock.step("model"):
        concluded, notes, left_out = _conclusions(asked.runs, spans, tables, groups, options)
        tables |= concluded
    facts = _facts(asked.runs, spans, tables, options) | {
        "rows": _total(tables["joins"], "client_rows") + _total(tables["joins"], "broker_rows"),
        "rejected": _total(tables["reject_reasons"], "count"),
        "left_out": left_out,
        "master": spark.conf.get("spark.master"),
        "notes": notes,
        "seconds": clock.seconds,
    }
    return tables, facts


# Aggregate


def _warmed_up(spans: Sequence[RunTimes], groups: Mapping[Group, Series]) -> list[RunTimes]:
    """The same, measured from where MSER-5 sees the end of the warm-up; as given where it sees none."""
    found = {row["run"]: row["found_s"] for row in run_checks.warm_ups(spans, groups).to_pylist()}
    return [
        span if found[span.run] is None
        else replace(span, measured=Window(_after(span, found[span.run]), span.measured.end_ns))
        for span in spans
    ]  # fmt: skip


def _after(span: RunTimes, seconds: float) -> int:
    return span.load.start_ns + round(seconds * SECOND)


def _series(asked: Requests, spans: Sequence[RunTimes]) -> dict[Group, Series]:
    """The windows of each group."""
    run_times = times.frame(asked.frame.sparkSession, spans)
    windows = results.windows(results.by_tier(asked.frame), run_times, asked.groups, spans[0].window_ns)
    return run_tables.series(windows.toArrow(), asked.names, {span.run: span for span in spans})


def _run_tables(
    asked: Requests, spans: Sequence[RunTimes], options: Options
) -> tuple[dict[str, pa.Table], dict[Group, Series]]:
    """All tables of single runs, and the windows of each group."""
    by_run, names = {span.run: span for span in spans}, asked.names
    run_times = times.frame(asked.frame.sparkSession, spans)
    rows = results.by_tier(asked.frame)
    measured = results.measured_counts(rows, run_times, asked.groups).persist()
    figures = results.summary(measured, options.limits_us).toArrow().to_pylist()
    bins = results.distribution(measured).toArrow().to_pylist()
    measured.unpersist()
    groups = _series(asked, spans)
    by_window = results.tiers(asked.frame, run_times).toArrow().to_pylist()
    phases = results.phases(asked.frame, run_times).toArrow().to_pylist()
    stationarity = run_checks.stationary(spans, groups)
    return {
        "summary": run_tables.summary(figures, groups, names, by_run, run_checks.trends(stationarity), options.level),
        "shares": run_tables.shares(figures, names, options.limits_us),
        "distribution": run_tables.distribution(bins, names),
        "windows": run_tables.windows(groups, by_run),
        "joins": run_tables.joins(by_window, names),
        "phase_windows": run_tables.phase_windows(by_window, names, by_run),
        "phases": run_tables.phases(phases, names),
        "breakdown": run_tables.breakdown(phases, names),
        "stationarity": stationarity,
        "warm_up": run_checks.warm_ups(spans, groups),
    }, groups


def _samples(source: Source, spans: Sequence[RunTimes]) -> tuple[dict[str, pa.Table], list[BadFile]]:
    samples = source.samples
    if samples is None:
        return {name: result_tables.TABLES[name].empty_table() for name in ("queues", "costs")}, []

    def collect(bad: Sequence[BadFile]) -> dict[str, pa.Table]:
        good = samples.without(bad) if bad else samples
        return {
            "queues": _ordered(sample_tables.queues(good.queues, spans), "queues", "queue"),
            "costs": _ordered(sample_tables.costs(good.processes, spans), "costs", "process"),
        }

    return files.retry(collect)


def _ordered(frame: DataFrame, table: str, name: str) -> pa.Table:
    order = [("run", "ascending"), ("second", "ascending"), (name, "ascending")]
    return frame.toArrow().cast(result_tables.TABLES[table]).sort_by(order)


def _rejects(rejects: DataFrame, bad: Sequence[BadFile]) -> dict[str, pa.Table]:
    """Rejected lines, at most so many, and how many there are for which reason."""
    here = [{"file": each.file, "line": 0, "text": "", "reason": each.reason} for each in bad]
    sample = rejects.limit(MOST_REJECTS).toArrow().select(REJECTS.names).cast(result_tables.TABLES["rejects"])
    reasons = Counter(sample["reason"].to_pylist())
    if sample.num_rows == MOST_REJECTS:
        by_reason = rejects.groupBy("reason").agg(F.count(F.lit(1)).alias("count")).collect()
        reasons = Counter({row["reason"]: row["count"] for row in by_reason})
    reasons += Counter(each.reason for each in bad)
    return {
        "rejects": pa.concat_tables([sample, result_tables.table("rejects", here)]),
        "reject_reasons": result_tables.table(
            "reject_reasons", [{"reason": reason, "count": count} for reason, count in reasons.most_common()]
        ),
    }


def _total(table: pa.Table, column: str) -> int:
    return pc.sum(table[column]).as_py() or 0


# Model


def _conclusions(
    runs: Sequence[Run],
    spans: Sequence[RunTimes],
    tables: Mapping[str, pa.Table],
    groups: Mapping[Group, Series],
    options: Options,
) -> tuple[dict[str, pa.Table], list[str], list[str]]:
    """Tables over several runs, sentences about what is missing in them, and the runs that do not count in them."""
    measured = over_runs.measured(runs, tables["summary"])
    left_out = [] if options.include_invalid else [run.run for run in runs if run.valid is False]
    measured = [part for part in measured if part.run.run not in left_out]
    busy, network = busy_cores(spans, tables["costs"]), _network(tables["breakdown"])
    effects, why_no_effects = over_runs.effects(measured, options.level)
    predicted, why_no_models = models.models([part for part in measured if part.whole], busy, network, options.level)
    concluded = {
        "points": over_runs.points(measured, options.level),
        "curves": over_runs.curves(measured, options.level),
        "effects": effects,
        "models": predicted,
        "laws": run_checks.laws(runs, tables["summary"], tables["breakdown"], busy),
    }
    return concluded, [*why_no_effects, *why_no_models], left_out


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
    runs: Sequence[Run], spans: Sequence[RunTimes], found: Mapping[str, pa.Table], options: Options
) -> dict[str, Any]:
    by_run = {span.run: span for span in spans}
    return {
        "format": 1,
        "versions": {
            "stafette": version("stafette"), "python": platform.python_version(), "spark": pyspark.__version__,
        },
        "options": {
            "window_s": options.window_s, "limits_ms": list(options.limits_ms), "level": options.level,
            "warm_up": options.warm_up, "include_invalid": options.include_invalid,
        },
        "runs": [_run_facts(run, by_run.get(run.run)) for run in runs],
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
