"""What stands at the top: whether the runs can be trusted, in words, and the figures that matter most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stafette.report.figures.style import number
from stafette.report.figures.table_rows import RunFacts, Tables, by_series, distinct, select, series_name, tier_of
from stafette.report.grids import Cell, Grid, made, with_interval
from stafette.runs.outcomes import ALL

WORDS = {True: "valid", False: "not valid", None: "no verdict"}
FOLD_FROM = 12
"""From so many valid runs on they are folded away: the others are what one must see."""
KEY_METRICS = ("throughput", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "error_share")


@dataclass(frozen=True)
class Line:
    """One run's verdict."""

    title: str
    experiment: str
    word: str
    why: str
    thresholds: Sequence[str]
    passed: bool


@dataclass(frozen=True)
class Headline:
    """The head of the report."""

    headline: str
    good: bool
    lines: Sequence[Line]
    folded: Sequence[Line]
    totals: Sequence[str]


def headline(runs: Sequence[RunFacts], tables: Tables, facts: Mapping[str, Any]) -> Headline:
    """Every run in a line, those that are not valid first."""
    ordered = sorted(runs, key=lambda run: {False: 0, None: 1, True: 2}[run.valid])
    lines = [_line(run) for run in ordered]
    plain = [line for line in lines if line.word == "valid" and line.passed]
    folded = plain if len(plain) >= FOLD_FROM else []
    shown = [line for line in lines if line not in folded] if folded else lines
    good = all(run.valid for run in runs) and all(line.passed for line in lines) and bool(runs)
    return Headline(_headline(runs, lines), good, shown, folded, _totals(runs, tables, facts))


def _line(run: RunFacts) -> Line:
    words = {None: "the source does not say whether it can be trusted", True: "every check holds", False: ""}
    why = "; ".join(run.sentences) or words[run.valid] or "no reason is given"
    thresholds = [
        f"{'reached' if result.get('ok') else 'missed'}: {result.get('metric')} {result.get('threshold')}"
        f" (found {number(result.get('value'))})"
        for result in run.thresholds
    ]
    passed = all(result.get("ok") for result in run.thresholds)
    return Line(run.title, run.experiment, WORDS[run.valid], why, thresholds, passed)


def _headline(runs: Sequence[RunFacts], lines: Sequence[Line]) -> str:
    bad = sum(run.valid is False for run in runs)
    unknown = sum(run.valid is None for run in runs)
    missed = sum(not line.passed for line in lines)
    if not runs:
        return "There is no run in this analysis."
    if len(runs) == 1:
        said = {True: "The run is valid", False: "The run is not valid", None: "There is no verdict on the run"}
        start = said[runs[0].valid]
    elif bad:
        start = f"{bad:,} of {len(runs):,} runs {'is' if bad == 1 else 'are'} not valid"
    elif unknown:
        start = f"There is no verdict on {unknown:,} of {len(runs):,} runs"
    else:
        start = f"All {len(runs):,} runs are valid"
    if missed:
        return f"{start}; {'thresholds were' if missed == 1 else f'in {missed:,} runs thresholds were'} missed."
    if any(run.thresholds for run in runs):
        return f"{start}; every threshold was reached."
    return f"{start}."


def rejected(tables: Tables, facts: Mapping[str, Any]) -> int:
    """How many lines could not be read: the total of the facts, as the table is capped."""
    told = facts.get("rejected")
    if isinstance(told, int):
        return told
    table = tables.get("rejects")
    return 0 if table is None else int(table.num_rows)


def _totals(runs: Sequence[RunFacts], tables: Tables, facts: Mapping[str, Any]) -> list[str]:
    joins = select(tables, "joins")
    answered = 0
    for run in runs:
        tier = tier_of(tables, "summary", run.run)
        rows = select(tables, "summary", run=run.run, tier=tier) if tier else []
        answered += sum(row["count"] for row in rows if row["operation"] == ALL) or sum(row["count"] for row in rows)
    bad = rejected(tables, facts)
    totals = [f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}", f"{answered:,} requests in the measured windows"]
    if joins:
        both = sum(row["joined"] for row in joins)
        alone = sum(row["client_only"] + row["broker_only"] for row in joins)
        totals.append(f"{both:,} requests seen in both tiers, {alone:,} in one only")
    totals.append(f"{bad:,} {'line' if bad == 1 else 'lines'} rejected" if bad else "no line rejected")
    return totals


def key_figures(runs: Sequence[RunFacts], tables: Tables) -> tuple[Grid | None, str]:
    """The table that answers most questions, and which intervals it shows."""
    points = select(tables, "points")
    if len(runs) > 1 and points:
        return _of_points(points)
    return _of_operations(runs, tables)


def _of_points(points: list[dict[str, Any]]) -> tuple[Grid, str]:
    metrics = [metric for metric in KEY_METRICS if any(row["metric"] == metric for row in points)]
    body = []
    several = len(distinct(points, "experiment")) > 1
    for experiment in distinct(points, "experiment"):
        mine = [row for row in points if row["experiment"] == experiment]
        for label in distinct(mine, "label"):
            found = {row["metric"]: row for row in mine if row["label"] == label}
            repetitions = next(iter(found.values()))["repetitions"]
            cells = [
                with_interval(found[m]["mean"], found[m]["low"], found[m]["high"]) if m in found else Cell("–")
                for m in metrics
            ]
            name = [Cell(experiment)] if several else []
            body.append([*name, Cell(str(label)), Cell(number(repetitions), True), *cells])
    heads = [*(["experiment"] if several else []), "point", "repetitions", *(_short_head(metric) for metric in metrics)]
    if any(row["low"] is not None for row in points):
        return made(heads, body), (
            "Each value is the mean over repetitions; below it the interval of that mean (Student t over the"
            " repetitions, which are independent of each other)."
        )
    return made(heads, body), "Every point was run once, so there are no intervals over repetitions."


def _short_head(metric: str) -> str:
    return {"throughput": "answers/s", "error_share": "error share"}.get(metric, metric.replace("_", " "))


def _of_operations(runs: Sequence[RunFacts], tables: Tables) -> tuple[Grid | None, str]:
    body, kinds = [], set()
    for run in runs:
        tier = tier_of(tables, "summary", run.run)
        rows = select(tables, "summary", run=run.run, tier=tier) if tier else []
        for series, (row, *_) in by_series(rows).items():
            low, high, kind = _best_interval(row)
            kinds.add(kind)
            body.append(
                [
                    *([Cell(run.title)] if len(runs) > 1 else []),
                    Cell(series_name(*series)),
                    Cell(number(row["count"]), True),
                    Cell(number(row["throughput_per_s"]), True),
                    with_interval(row["mean_ms"], low, high),
                    *(Cell(number(row[name]), True) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                    Cell(kind),
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
        "interval of the mean",
    ]
    grid = made(["run", *heads] if len(runs) > 1 else heads, body)
    words = {
        "batch means": "“batch means” allows for requests that depend on their neighbours",
        "t, iid": "“t, iid” takes requests as independent and is too narrow when they are not",
        "none": "“none” means too few requests",
    }
    told = "; ".join(text for kind, text in words.items() if kind in kinds)
    return grid, f"Below the mean its interval: {told}. One run: there are no intervals over repetitions."


def _best_interval(row: Mapping[str, Any]) -> tuple[float | None, float | None, str]:
    if row.get("batch_low_ms") is not None:
        return row["batch_low_ms"], row["batch_high_ms"], "batch means"
    if row.get("mean_low_ms") is not None:
        return row["mean_low_ms"], row["mean_high_ms"], "t, iid"
    return None, None, "none"
