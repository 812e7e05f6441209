"""The top of the report: whether the runs can be trusted, in words, and the key metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stafette.report.figures.style import number, percent
from stafette.report.figures.table_rows import (
    WHOLE,
    RunMetadata,
    Tables,
    by_series,
    distinct,
    select,
    series_name,
    tier_of,
)
from stafette.report.grids import Cell, Grid, build_grid, with_interval
from stafette.report.interval_words import describe, has_interval, level_of
from stafette.runs.outcomes import ALL

VERDICTS = {True: "valid", False: "not valid", None: "no verdict"}
FOLD_FROM = 12
"""From this number on, valid runs are folded away, so that the others are visible."""
MAX_NAMED_RUNS = 12
"""Runs left out that the head names; its list of runs has all."""
MAX_REASONS = 5
"""Reasons for rejects that the head names; the table has all."""
KEY_METRICS = ("throughput", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "error_share")


@dataclass(frozen=True)
class RunLine:
    """One run's verdict."""

    title: str
    experiment: str
    verdict: str
    reason: str
    thresholds: Sequence[str]
    passed: bool


@dataclass(frozen=True)
class Headline:
    """The head of the report."""

    headline: str
    good: bool
    lines: Sequence[RunLine]
    folded: Sequence[RunLine]
    totals: Sequence[str]
    left_out: str
    """Which runs are not in the results over runs; empty if all are."""


def headline(runs: Sequence[RunMetadata], tables: Tables, metadata: Mapping[str, Any]) -> Headline:
    """One line per run, invalid runs first."""
    invalid_first = sorted(runs, key=lambda run: {False: 0, None: 1, True: 2}[run.valid])
    lines = [_line(run) for run in invalid_first]
    unremarkable = [line for line in lines if line.verdict == "valid" and line.passed]
    folded = unremarkable if len(unremarkable) >= FOLD_FROM else []
    visible = [line for line in lines if line not in folded] if folded else lines
    good = all(run.valid for run in runs) and all(line.passed for line in lines) and bool(runs)
    return Headline(
        _headline(runs, lines), good, visible, folded, _totals(runs, tables, metadata), _left_out(runs, metadata)
    )


def _line(run: RunMetadata) -> RunLine:
    default_reasons = {None: "the source has no verdict", True: "every check holds", False: ""}
    reason = "; ".join(run.reasons) or default_reasons[run.valid] or "no reason is given"
    thresholds = [
        f"{'reached' if threshold.get('ok') else 'missed'}: {threshold.get('metric')} {threshold.get('threshold')}"
        f" (measured {number(threshold.get('value'))})"
        for threshold in run.thresholds
    ]
    passed = all(threshold.get("ok") for threshold in run.thresholds)
    return RunLine(run.title, run.experiment, VERDICTS[run.valid], reason, thresholds, passed)


def _headline(runs: Sequence[RunMetadata], lines: Sequence[RunLine]) -> str:
    invalid = sum(run.valid is False for run in runs)
    unjudged = sum(run.valid is None for run in runs)
    misses = sum(not line.passed for line in lines)
    if not runs:
        return "There is no run in this analysis."
    if len(runs) == 1:
        verdicts = {True: "The run is valid", False: "The run is not valid", None: "There is no verdict on the run"}
        summary = verdicts[runs[0].valid]
    elif invalid:
        summary = f"{invalid:,} of {len(runs):,} runs {'is' if invalid == 1 else 'are'} not valid"
    elif unjudged:
        summary = f"There is no verdict on {unjudged:,} of {len(runs):,} runs"
    else:
        summary = f"All {len(runs):,} runs are valid"
    if misses:
        return f"{summary}; {'thresholds were' if misses == 1 else f'in {misses:,} runs thresholds were'} missed."
    if any(run.thresholds for run in runs):
        return f"{summary}; every threshold was reached."
    return f"{summary}."


def _left_out(runs: Sequence[RunMetadata], metadata: Mapping[str, Any]) -> str:
    """A sentence about the runs that points, curves, effects and models do not have."""
    run_ids = metadata.get("left_out") or ()
    if not run_ids:
        return ""
    titles = {run.run: run.title for run in runs}
    names = "; ".join(titles.get(run_id, str(run_id)) for run_id in run_ids[:MAX_NAMED_RUNS])
    rest = f"; and {len(run_ids) - MAX_NAMED_RUNS:,} more" if len(run_ids) > MAX_NAMED_RUNS else ""
    subject = "1 run is" if len(run_ids) == 1 else f"{len(run_ids):,} runs are"
    return (
        f"{subject} not valid and left out of points, curves, effects and models: {names}{rest}."
        f" `stafette analyze --include-invalid` takes {'it' if len(run_ids) == 1 else 'them'} in."
    )


def count_rejects(tables: Tables, metadata: Mapping[str, Any]) -> int:
    """Number of lines that could not be read. The metadata has the total; the table of lines is capped."""
    total = metadata.get("rejected")
    if isinstance(total, int):
        return total
    reasons = select(tables, "reject_reasons")
    if reasons:
        return sum(row["count"] for row in reasons)
    table = tables.get("rejects")
    return 0 if table is None else int(table.num_rows)


def _totals(runs: Sequence[RunMetadata], tables: Tables, metadata: Mapping[str, Any]) -> list[str]:
    joins = select(tables, "joins")
    answered = 0
    for run in runs:
        tier = tier_of(tables, "summary", run.run)
        rows = select(tables, "summary", run=run.run, tier=tier) if tier else []
        answered += sum(row["count"] for row in rows if row["operation"] == ALL) or sum(row["count"] for row in rows)
    reject_count = count_rejects(tables, metadata)
    totals = [f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}", f"{answered:,} requests in the measured windows"]
    if joins:
        in_both_tiers = sum(row["joined"] for row in joins)
        in_one_tier = sum(row["client_only"] + row["broker_only"] for row in joins)
        totals.append(f"{in_both_tiers:,} requests seen in both tiers, {in_one_tier:,} in one only")
    rejects = f"{reject_count:,} {'line' if reject_count == 1 else 'lines'} rejected"
    totals.append(f"{rejects}{_reject_reasons(tables)}" if reject_count else "no line rejected")
    return totals


def _reject_reasons(tables: Tables) -> str:
    """The most frequent reasons, each with its number of lines."""
    rows = sorted(select(tables, "reject_reasons"), key=lambda row: -row["count"])
    parts = [f"{row['count']:,} {row['reason']}" for row in rows[:MAX_REASONS]]
    rest = rows[MAX_REASONS:]
    if rest:
        noun = "another reason" if len(rest) == 1 else f"{len(rest):,} other reasons"
        parts.append(f"{sum(row['count'] for row in rest):,} for {noun}, see Rejected lines")
    return f": {'; '.join(parts)}" if parts else ""


def key_metrics(runs: Sequence[RunMetadata], tables: Tables, level: float | None = None) -> tuple[Grid | None, str]:
    """The table of key metrics, and a note on the intervals that it shows; `level` is that of the analysis."""
    points = select(tables, "points", **WHOLE)
    if len(runs) > 1 and points:
        return _of_points(points, level_of(tables) if level is None else level)
    return _of_operations(runs, tables)


def _of_points(points: list[dict[str, Any]], level: float | None) -> tuple[Grid, str]:
    metrics = [metric for metric in KEY_METRICS if any(row["metric"] == metric for row in points)]
    body = []
    several = len(distinct(points, "experiment")) > 1
    for experiment in distinct(points, "experiment"):
        experiment_rows = [row for row in points if row["experiment"] == experiment]
        for label in distinct(experiment_rows, "label"):
            row_by_metric = {row["metric"]: row for row in experiment_rows if row["label"] == label}
            repetitions = next(iter(row_by_metric.values()))["repetitions"]
            cells = [
                with_interval(row_by_metric[m]["mean"], row_by_metric[m]["low"], row_by_metric[m]["high"])
                if m in row_by_metric
                else Cell("–")
                for m in metrics
            ]
            name = [Cell(experiment)] if several else []
            body.append([*name, Cell(str(label)), Cell(number(repetitions), True), *cells])
    heads = [*(["experiment"] if several else []), "point", "repetitions", *(_short_head(metric) for metric in metrics)]
    if any(row["low"] is not None for row in points):
        single = " A point with one repetition has none." if any(row["repetitions"] == 1 for row in points) else ""
        return build_grid(heads, body), (
            f"Each value is the mean over repetitions; below it is the {_interval_name(level)} of that mean"
            f" (Student t over the repetitions, which are independent of each other).{single}"
        )
    return build_grid(heads, body), "Every point was run once, so there are no intervals over repetitions."


def _interval_name(level: float | None) -> str:
    return f"{percent(level)} confidence interval".strip()


def _short_head(metric: str) -> str:
    return {"throughput": "answers/s", "error_share": "error share"}.get(metric, metric.replace("_", " "))


def _of_operations(runs: Sequence[RunMetadata], tables: Tables) -> tuple[Grid | None, str]:
    body, kinds = [], []
    for run in runs:
        tier = tier_of(tables, "summary", run.run)
        rows = select(tables, "summary", run=run.run, tier=tier) if tier else []
        for series, (row, *_) in by_series(rows).items():
            kinds.append(row["interval_kind"])
            shown = dict(row) if has_interval(row) else {}
            body.append(
                [
                    *([Cell(run.title)] if len(runs) > 1 else []),
                    Cell(series_name(*series)),
                    Cell(number(row["count"]), True),
                    with_interval(row["throughput_per_s"], shown.get("throughput_low"), shown.get("throughput_high")),
                    with_interval(row["mean_ms"], shown.get("mean_low_ms"), shown.get("mean_high_ms")),
                    *(Cell(number(row[name]), True) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                    Cell(describe(row)),
                ]
            )
    if not body:
        return None, "The summary table is empty: no request ended in the measured window."
    heads = [
        "operation",
        "count",
        "answers/s",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "intervals",
    ]
    grid = build_grid(["run", *heads] if len(runs) > 1 else heads, body)
    return grid, f"{_interval_note(kinds)} One run has no intervals over repetitions."


def _interval_note(kinds: Sequence[str | None]) -> str:
    if all(kind is None for kind in kinds):
        return "There are no confidence intervals: the last column says why."
    note = "Below throughput and mean are their confidence intervals; the last column says of which level and kind."
    if "batches" in kinds:
        note += (
            " “batches”: ratio estimator over batches of windows, which allows for correlation between neighbouring"
            " requests."
        )
    return note
