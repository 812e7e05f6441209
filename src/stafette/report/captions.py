"""Captions: what a figure shows, in a sentence made from the same rows. They are the figure's text alternative, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from stafette.report.figures.breakdown import part
from stafette.report.figures.design import ERROR_NAMES, METRICS, MODELS, spans_zero
from stafette.report.figures.style import PHASES, number
from stafette.report.figures.table_rows import Row, Stages, Tables, by_series, distinct, select, series_name, tier_of
from stafette.runs.outcomes import ALL

Thing = TypeVar("Thing")

BEYOND = 1.01
MANY = 3
"""So many things are named; a caption is not a table."""


def throughput(tables: Tables, run: str, found: Stages) -> str:
    """Answers per second in the measured window, and which that is."""
    rows = _summary(tables, run)
    parts = [f"{series_name(*s)} {number(r['throughput_per_s'])}" for s, r in rows.items() if s[0] != ALL]
    total = next((r["throughput_per_s"] for s, r in rows.items() if s[0] == ALL), None)
    whole = f"{number(total)} answers per second in the measured window: " if total else "Per second in the window: "
    return f"{whole}{_list(parts)}. {stages(found)}".strip()


def response_time(tables: Tables, run: str, merged: str = "") -> str:
    """Median and tail of the most frequent operations, and which windows are drawn when not all are."""
    rows = _summary(tables, run)
    parts = [
        f"{series_name(*series)}: median {number(row['p50_ms'])} ms, 99 % below {number(row['p99_ms'])} ms"
        for series, row in rows.items()
        if series[0] != ALL
    ]
    return f"{'; '.join(_first(parts))}. Line: median; bands: up to p95 and p99 of each window. {merged}".strip()


def stages(found: Stages) -> str:
    """What is shaded."""
    if found.window_from_s is None or found.window_to_s is None or found.load_s is None:
        return ""
    return (
        f"Counted: {number(found.window_to_s - found.window_from_s)} s after {number(found.window_from_s)} s of warm-up"
        f" and before {number(found.load_s - found.window_to_s)} s of cool-down."
    )


def breakdown(tables: Tables, run: str) -> str:
    """Where most of the time goes."""
    groups = by_series(select(tables, "breakdown", run=run))
    told = []
    for series, rows in _first(list(groups.items())):
        told.append(f"{series_name(*series)} takes {number(rows[0]['client_ms'])} ms: {_parts(rows[0])}")
    return "; ".join(told) + "."


def breakdown_by_point(rows: Sequence[Row], labels: Mapping[str, str]) -> str:
    """The fastest and the slowest point, and where the slowest spends its time."""
    means: dict[str, list[float]] = {}
    for row in rows:
        means.setdefault(labels[row["run"]], []).append(row["client_ms"] or 0.0)
    points = {label: sum(values) / len(values) for label, values in means.items()}
    least, most = min(points, key=lambda p: points[p]), max(points, key=lambda p: points[p])
    slowest = next(row for row in rows if labels[row["run"]] == most)
    return (
        f"From {number(points[least])} ms ({least}) to {number(points[most])} ms ({most}), means over repetitions;"
        f" at the slowest point {_parts(slowest)}."
    )


def distribution(tables: Tables, run: str) -> str:
    """Middle and far end."""
    rows = _summary(tables, run)
    parts = [
        f"{series_name(*series)}: half below {number(row['p50_ms'])} ms, 99.9 % below {number(row['p99_9_ms'])} ms,"
        f" slowest {number(row['max_ms'])} ms"
        for series, row in rows.items()
        if series[0] != ALL
    ]
    return "; ".join(_first(parts)) + "."


def share_below_limits(tables: Tables, run: str) -> str:
    """Two limits that tell: where half, and where nearly all have been answered."""
    tier = tier_of(tables, "shares", run)
    rows = select(tables, "shares", run=run, tier=tier) if tier else []
    groups = by_series(rows)
    chosen = next((s for s in groups if s[0] == ALL), next(iter(groups)))
    mine = sorted(groups[chosen], key=lambda row: row["limit_ms"])
    told = [next((row for row in mine if row["share"] >= share), mine[-1]) for share in (0.5, 0.95, 0.99)]
    parts = [f"{_percent(row['share'])} within {number(row['limit_ms'])} ms" for row in told]
    return f"{series_name(*chosen).capitalize()}: {_list(list(dict.fromkeys(parts)))}."


def queue_lengths(tables: Tables, run: str) -> str:
    """The longest queue."""
    rows = select(tables, "queues", run=run)
    peak = max(rows, key=lambda row: row["messages"])
    last = max(row["second"] for row in rows)
    left = sum(row["messages"] for row in rows if row["second"] == last)
    queues = len(distinct(rows, "queue"))
    return (
        f"{queues:,} {'queues' if queues > 1 else 'queue'}; the longest was {peak['queue']} with"
        f" {number(peak['messages'])} messages after {number(peak['second'])} s; {number(left)} waited at the end."
    )


def processor_time(tables: Tables, run: str) -> str:
    """Who used most."""
    shares: dict[str, list[float]] = {}
    for row in select(tables, "costs", run=run):
        if row["cpu_share"] is not None:
            shares.setdefault(row["process"], []).append(row["cpu_share"])
    means = {name: sum(values) / len(values) for name, values in shares.items()}
    order = sorted(means, key=lambda name: -means[name])
    return f"On average {_list([f'{name} used {means[name]:.2f} cores' for name in order])}."


def scaling_curve(tables: Tables, experiment: str, factor: str) -> str:
    """From where to where, and the best point."""
    rows = select(tables, "curves", experiment=experiment, factor=factor)
    told = []
    for metric, words in (("throughput", "answers per second"), ("mean_ms", "ms on average")):
        mine = [row for row in rows if row["metric"] == metric and row["mean"] is not None]
        if not mine:
            continue
        best = max(mine, key=lambda row: row["mean"])
        least = min(mine, key=lambda row: row["mean"])
        told.append(
            f"{number(least['mean'])} {words} at {factor} {least['level']}, {number(best['mean'])} at {best['level']}"
        )
    bars = any(row["low"] is not None for row in rows)
    return "; ".join(told) + ("; bars: intervals over repetitions." if bars else "; one run each, so no intervals.")


def effects(tables: Tables, experiment: str, metric: str) -> str:
    """The strongest effects, and those that may be none."""
    rows = select(tables, "effects", experiment=experiment, metric=metric)
    mean = next((row["value"] for row in rows if row["effect"] in {"mean", "I"}), None)
    mine = [row for row in rows if row["value"] is not None and row["effect"] not in {"mean", "I", *ERROR_NAMES}]
    mine.sort(key=lambda row: -abs(row["value"]))
    strongest = [f"{row['effect']} {number(row['value'])}{_interval(row)}" for row in mine[:MANY]]
    unsure = sum(spans_zero(row) for row in mine)
    start = f"Mean {number(mean)}; strongest" if mean is not None else "Strongest"
    known = any(row["low"] is not None for row in mine)
    end = f" {unsure} of {len(mine)} intervals contain 0 (hollow)." if known else " No repetitions, so no intervals."
    return f"{start}: {_list(strongest)}.{end}"


def variation(tables: Tables, experiment: str, metric: str) -> str:
    """Who explains how much."""
    rows = select(tables, "effects", experiment=experiment, metric=metric)
    mine = [row for row in rows if row["variation_percent"] is not None]
    chance = [row["variation_percent"] for row in mine if row["effect"] in ERROR_NAMES]
    named = sorted((row for row in mine if row["effect"] not in ERROR_NAMES), key=lambda row: -row["variation_percent"])
    parts = [f"{row['effect']} explains {row['variation_percent']:.1f} %" for row in named[:MANY]]
    return f"{_list(parts)}{f'; {chance[0]:.1f} % is left to chance' if chance else ''}."


def predicted_and_measured(tables: Tables, experiment: str) -> str:
    """How far each model is off."""
    told = []
    rows = [r for r in select(tables, "models", experiment=experiment) if r["measured"] and r["predicted"] is not None]
    for model in (model for model in distinct(rows, "model") if model != "bounds"):
        off = []
        for metric in distinct((row for row in rows if row["model"] == model), "metric"):
            mine = [row for row in rows if (row["model"], row["metric"]) == (model, metric)]
            mean = sum(abs(row["predicted"] / row["measured"] - 1) for row in mine) / len(mine)
            off.append(f"{100 * mean:.0f} % in {METRICS.get(metric, metric).removesuffix(' (ms)')}")
        told.append(f"{MODELS.get(model, (model, None))[0]} is off by {_list(off)}")
    bounds = [row for row in rows if row["model"] == "bounds"]
    off_by = f"On average {'; '.join(told)}." if told else ""
    beyond = f" {sum(map(_beyond, bounds))} of {len(bounds)} measurements lie beyond the bounds." if bounds else ""
    return f"{off_by}{beyond}".strip() or "No model could be compared with 1 measurement or more."


def _beyond(row: Row) -> bool:
    """Throughput above what is possible, or an answer faster than that: by more than rounding."""
    if row["metric"] == "throughput":
        return bool(row["measured"] > row["predicted"] * BEYOND)
    return bool(row["measured"] * BEYOND < row["predicted"])


def _summary(tables: Tables, run: str) -> dict[tuple[str, str], Row]:
    tier = tier_of(tables, "summary", run)
    rows = select(tables, "summary", run=run, tier=tier) if tier else []
    return {series: group[0] for series, group in by_series(rows).items()}


def _parts(row: Row) -> str:
    lengths = {phase.label: part(row, phase) or 0.0 for phase in PHASES}
    whole = sum(max(0.0, length) for length in lengths.values()) or 1.0
    order = sorted(lengths, key=lambda label: -lengths[label])[:MANY]
    return _list([f"{label} {100 * lengths[label] / whole:.0f} %" for label in order if lengths[label] > 0])


def _interval(row: Row) -> str:
    return "" if row["low"] is None or row["high"] is None else f" ({number(row['low'])} to {number(row['high'])})"


def _percent(share: float) -> str:
    """Never 100 % when one request is missing."""
    if share < 1 and share > 0.999:
        return "over 99.9 %"
    return f"{number(100 * share)} %"


def _first(things: Sequence[Thing]) -> Sequence[Thing]:
    return things[:MANY]


def _list(parts: Sequence[str]) -> str:
    return ", ".join(parts)
