"""An analysis: traces become requests, requests become result tables.

Spark reads the rows and returns small tables, and everything else works on these. There are few Spark jobs: most
inputs are small, and then starting jobs is most of the cost.
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

from stafette.pipeline import aggregates, models, over_runs, run_checks, run_tables, sample_tables, store
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
"""The number of rejected lines that are stored; the others are only counted."""
DATABASE = "database"


@dataclass(frozen=True)
class Analysis:
    """The results: tables, metadata, and the folder that has them."""

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
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)


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
    """Analyse the runs of a source, and write the results to `out` if it is given.

    `requests` is the folder, or a URL that Spark knows, where requests are stored.
    """
    with store.own_partitions(spark):
        tables, metadata = _analyze(spark, read, requests, options or Options(), clock := _Clock(progress))
    if out is not None:
        with clock.step("write"):
            result_files.write(out, tables, metadata)
    return Analysis(tables, metadata, out)


def _analyze(
    spark: SparkSession, read: Reader, root: str, options: Options, clock: _Clock
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    with clock.step("read"):
        requests = ingest(spark, read, root)
        spans = spans_of(requests.runs, options)
        check_windows(spans)
    with clock.step("aggregate"):
        if options.warm_up == "auto":
            tables = aggregates.aggregate(requests, spans, options.limits_us, [aggregates.WINDOWS])
            by_run = {span.run: span for span in spans}
            spans = _cut_warm_ups(spans, run_tables.series(tables[aggregates.WINDOWS], requests.names, by_run))
        tables, groups = _run_tables(requests, spans, options)
    with clock.step("samples"):
        second_tables, bad_samples = _samples(requests.source, spans)
        tables |= second_tables | _rejects(requests.rejects, [*requests.source.bad, *bad_samples])
    with clock.step("model"):
        conclusions, notes, excluded_runs = _conclusions(requests.runs, spans, tables, groups, options)
        tables |= conclusions
    metadata = _metadata(requests.runs, spans, tables, options) | {
        "rows": _total(tables["joins"], "client_rows") + _total(tables["joins"], "broker_rows"),
        "rejected": _total(tables["reject_reasons"], "count"),
        "left_out": excluded_runs,
        "master": spark.conf.get("spark.master"),
        "notes": notes,
        "seconds": clock.seconds,
    }
    return tables, metadata


# Aggregate


def _cut_warm_ups(spans: Sequence[RunTimes], groups: Mapping[Group, Series]) -> list[RunTimes]:
    """The times with the end of the warm-up that MSER-5 finds; unchanged for a run where it finds none."""
    seconds = {row["run"]: row["found_s"] for row in run_checks.warm_ups(spans, groups).to_pylist()}
    return [
        span if seconds[span.run] is None
        else replace(span, measured=Window(_after(span, seconds[span.run]), span.measured.end_ns))
        for span in spans
    ]  # fmt: skip


def _after(span: RunTimes, seconds: float) -> int:
    return span.load.start_ns + round(seconds * SECOND)


def _run_tables(
    requests: Requests, spans: Sequence[RunTimes], options: Options
) -> tuple[dict[str, pa.Table], dict[Group, Series]]:
    """All tables of single runs, and the windows of each group."""
    by_run, names = {span.run: span for span in spans}, requests.names
    tables = aggregates.aggregate(requests, spans, options.limits_us)
    metrics, bins, by_window, phases = (
        tables[name].to_pylist() for name in (aggregates.METRICS, aggregates.BINS, aggregates.TIERS, aggregates.PHASES)
    )
    groups = run_tables.series(tables[aggregates.WINDOWS], names, by_run)
    stationarity = run_checks.stationary(spans, groups)
    return {
        "summary": run_tables.summary(metrics, groups, names, by_run, run_checks.trends(stationarity), options.level),
        "shares": run_tables.shares(metrics, names, options.limits_us),
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
        readable = samples.without(bad) if bad else samples
        return {
            "queues": _sort(sample_tables.queues(readable.queues, spans), "queues", "queue"),
            "costs": _sort(sample_tables.costs(readable.processes, spans), "costs", "process"),
        }

    return files.retry(collect)


def _sort(frame: DataFrame, table: str, name: str) -> pa.Table:
    order = [("run", "ascending"), ("second", "ascending"), (name, "ascending")]
    return frame.toArrow().cast(result_tables.TABLES[table]).sort_by(order)


def _rejects(rejects: DataFrame, bad: Sequence[BadFile]) -> dict[str, pa.Table]:
    """Rejected lines, up to the limit, and the number of all for each reason."""
    bad_rows = [{"file": bad_file.file, "line": 0, "text": "", "reason": bad_file.reason} for bad_file in bad]
    sample = rejects.limit(MOST_REJECTS).toArrow().select(REJECTS.names).cast(result_tables.TABLES["rejects"])
    reasons = Counter(sample["reason"].to_pylist())
    if sample.num_rows == MOST_REJECTS:
        by_reason = rejects.groupBy("reason").agg(F.count(F.lit(1)).alias("count")).collect()
        reasons = Counter({row["reason"]: row["count"] for row in by_reason})
    reasons += Counter(bad_file.reason for bad_file in bad)
    return {
        "rejects": pa.concat_tables([sample, result_tables.table("rejects", bad_rows)]),
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
    """Tables over several runs, the reasons for missing results, and the runs that are left out."""
    all_metrics = over_runs.collect_metrics(runs, tables["summary"])
    excluded_runs = [] if options.include_invalid else [run.run for run in runs if run.valid is False]
    all_metrics = [metrics for metrics in all_metrics if metrics.run.run not in excluded_runs]
    cores_by_run, network_s = busy_cores(spans, tables["costs"]), _network(tables["breakdown"])
    effects, effects_reasons = over_runs.effects(all_metrics, options.level)
    predictions, models_reasons = models.models(
        [metrics for metrics in all_metrics if metrics.covers_all], cores_by_run, network_s, options.level
    )
    conclusions = {
        "points": over_runs.points(all_metrics, options.level),
        "curves": over_runs.curves(all_metrics, options.level),
        "effects": effects,
        "models": predictions,
        "laws": run_checks.laws(runs, tables["summary"], tables["breakdown"], cores_by_run),
    }
    return conclusions, [*effects_reasons, *models_reasons], excluded_runs


def busy_cores(spans: Sequence[RunTimes], costs: pa.Table) -> dict[str, dict[str, float]]:
    """The mean number of cores in use by all brokers, and by the database, in the measured window of each run."""
    cores_by_run: dict[str, dict[str, float]] = {}
    for span in spans:
        begin, end = map(span.since_load_s, (span.measured.start_ns, span.measured.end_ns))
        inside = pc.and_(pc.greater_equal(costs["second"], begin), pc.less(costs["second"], end))
        run_costs = costs.filter(pc.and_(pc.equal(costs["run"], span.run), inside))
        means = run_costs.group_by("process").aggregate([("cpu_share", "mean")]).to_pylist()
        for row in means:
            part = (
                DATABASE
                if row["process"].startswith(DATABASE)
                else "broker"
                if row["process"].startswith("broker")
                else None
            )
            if part is not None:
                run_cores = cores_by_run.setdefault(span.run, {})
                run_cores[part] = run_cores.get(part, 0.0) + row["cpu_share_mean"]
    return cores_by_run


def _network(breakdown: pa.Table) -> dict[str, float]:
    """Seconds per request that neither tier explains."""
    totals: dict[str, tuple[int, float]] = {}
    for row in breakdown.to_pylist():
        count, total = totals.get(row["run"], (0, 0.0))
        totals[row["run"]] = (count + row["count"], total + row["count"] * row["unexplained_ms"] / 1000)
    return {run: total / count for run, (count, total) in totals.items() if count}


# Write


def _metadata(
    runs: Sequence[Run], spans: Sequence[RunTimes], tables: Mapping[str, pa.Table], options: Options
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
        "runs": [_run_metadata(run, by_run.get(run.run)) for run in runs],
        "totals": {name: table.num_rows for name, table in sorted(tables.items())},
    }  # fmt: skip


def _run_metadata(run: Run, span: RunTimes | None) -> dict[str, Any]:
    return {
        "run": run.run, "experiment": run.experiment, "label": run.label, "levels": dict(run.levels),
        "repetition": run.repetition, "design": run.design, "state": run.state, "why": run.why, "valid": run.valid,
        "sentences": list(run.sentences), "clients": dict(run.clients), "think_time_s": run.think_time_s,
        "brokers": run.brokers, "settings": dict(run.settings), "folder": run.folder,
        "load": None if span is None else [span.load.start_ns, span.load.end_ns],
        "window": None if span is None else [span.measured.start_ns, span.measured.end_ns],
    }  # fmt: skip
