"""Captions: what a figure shows, in a sentence made from the same rows. They are also the figure's text alternative."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from stafette.report.figures.breakdown import part
from stafette.report.figures.experiment_figures import (
    ERROR_NAMES,
    MAX_FAMILIES,
    MAX_PANELS,
    MEAN_NAMES,
    METRICS,
    MODELS,
    distinct_families,
    operation_curves,
    operation_effects,
    other_levels,
    spans_zero,
    strongest_first,
)
from stafette.report.figures.style import PHASES, STACKED_PHASES, number, percent
from stafette.report.figures.table_rows import (
    WHOLE,
    Row,
    Stages,
    Tables,
    by_series,
    distinct,
    select,
    series_name,
    tier_of,
)
from stafette.report.interval_words import bounds, error_bars, over_repetitions
from stafette.runs.outcomes import ALL

Item = TypeVar("Item")

ROUNDING_TOLERANCE = 1.01
MAX_NAMED = 3
"""More entries than this are not named: a caption is not a table."""
OVERLAP = "The broker's write is not stacked: the answer is on its way then, so this time is in “network and rest”."
CURVE_WORDS = {"throughput": "answers per second", "mean_ms": "ms on average"}


def throughput(tables: Tables, run: str, run_stages: Stages) -> str:
    """Answers per second in the measured window with their interval, and where the window is."""
    rows = _summary(tables, run)
    parts = [f"{series_name(*s)} {number(r['throughput_per_s'])}" for s, r in rows.items() if s[0] != ALL]
    overall = _overall(rows)
    start = "Per second in the measured window"
    if overall and overall["throughput_per_s"]:
        interval = bounds(overall, "throughput_low", "throughput_high")
        start = f"{number(overall['throughput_per_s'])} answers per second in the measured window{interval}"
    return f"{start}: {_list(parts)}. {stages(run_stages)}".strip()


def response_time(tables: Tables, run: str, merged: str = "") -> str:
    """Median and tail of the most frequent operations; `merged` says which windows are drawn if not all are."""
    rows = _summary(tables, run)
    parts = [
        f"{series_name(*series)}: median {number(row['p50_ms'])} ms, 99 % below {number(row['p99_ms'])} ms"
        for series, row in rows.items()
        if series[0] != ALL
    ]
    overall = _overall(rows)
    mean = ""
    if overall and overall["mean_ms"] is not None:
        interval = bounds(overall, "mean_low_ms", "mean_high_ms")
        mean = f" Mean of all operations: {number(overall['mean_ms'])} ms{interval}."
    return f"{'; '.join(_first(parts))}.{mean} Line: median; bands: up to p95 and p99 of each window. {merged}".strip()


def stages(run_stages: Stages) -> str:
    """Which part of the run is measured."""
    if run_stages.window_from_s is None or run_stages.window_to_s is None or run_stages.load_s is None:
        return ""
    return (
        f"Measured: {number(run_stages.window_to_s - run_stages.window_from_s)} s after"
        f" {number(run_stages.window_from_s)} s of warm-up and"
        f" before {number(run_stages.load_s - run_stages.window_to_s)} s of cool-down."
    )


def breakdown(tables: Tables, run: str) -> str:
    """Where most of the time goes."""
    groups = by_series(select(tables, "breakdown", run=run))
    sentences = []
    for series, rows in _first(list(groups.items())):
        sentences.append(f"{series_name(*series)} takes {number(rows[0]['client_ms'])} ms: {_largest_phases(rows[0])}")
    return f"{'; '.join(sentences)}. {_overlap(row for rows in groups.values() for row in rows)}".strip()


def breakdown_by_point(rows: Sequence[Row], labels: Mapping[str, str]) -> str:
    """The fastest and the slowest point, and where the slowest spends its time."""
    means: dict[str, list[float]] = {}
    for row in rows:
        means.setdefault(labels[row["run"]], []).append(row["client_ms"] or 0.0)
    points = {label: sum(values) / len(values) for label, values in means.items()}
    fastest, slowest = min(points, key=lambda p: points[p]), max(points, key=lambda p: points[p])
    slowest_row = next(row for row in rows if labels[row["run"]] == slowest)
    return (
        f"From {number(points[fastest])} ms ({fastest}) to {number(points[slowest])} ms ({slowest}),"
        " means over repetitions;"
        f" at the slowest point {_largest_phases(slowest_row)}. {_overlap(rows)}"
    ).strip()


def _overlap(rows: Iterable[Row]) -> str:
    """Why bars of the breakdown lack a phase that the table has."""
    return OVERLAP if any(row["write_ms"] for row in rows) else ""


def phases_over_time(tables: Tables, run: str) -> str:
    """The phases in which requests spend most of their time, with their shortest and longest window."""
    totals: dict[str, float] = {}
    rows = [row for row in select(tables, "phase_windows", run=run) if row["count"] and row["mean_ms"] is not None]
    for row in rows:
        totals[row["phase"]] = totals.get(row["phase"], 0.0) + row["count"] * row["mean_ms"]
    longest = sorted((phase for phase in STACKED_PHASES if phase.name in totals), key=lambda p: -totals[p.name])
    parts = []
    for phase in _first(longest):
        means = [row["mean_ms"] for row in rows if row["phase"] == phase.name]
        parts.append(f"{phase.label} {number(min(means))} to {number(max(means))} ms")
    overlap = f" {OVERLAP}" if any(phase.overlaps and phase.name in totals for phase in PHASES) else ""
    return (
        f"Means of the windows: {_list(parts)}. Areas are stacked up to the mean response time of requests that both"
        f" tiers have; one that does not pass a phase counts as 0 ms.{overlap}"
    )


def distribution(tables: Tables, run: str) -> str:
    """Median, 99.9th percentile and maximum."""
    rows = _summary(tables, run)
    parts = [
        f"{series_name(*series)}: half below {number(row['p50_ms'])} ms, 99.9 % below {number(row['p99_9_ms'])} ms,"
        f" slowest {number(row['max_ms'])} ms"
        for series, row in rows.items()
        if series[0] != ALL
    ]
    return "; ".join(_first(parts)) + "."


def share_below_limits(tables: Tables, run: str) -> str:
    """The limits within which 50, 95 and 99 % of the requests are answered."""
    tier = tier_of(tables, "shares", run)
    rows = select(tables, "shares", run=run, tier=tier) if tier else []
    groups = by_series(rows)
    series = next((s for s in groups if s[0] == ALL), next(iter(groups)))
    series_rows = sorted(groups[series], key=lambda row: row["limit_ms"])
    key_rows = [
        next((row for row in series_rows if row["share"] >= share), series_rows[-1]) for share in (0.5, 0.95, 0.99)
    ]
    parts = [f"{_percent(row['share'])} within {number(row['limit_ms'])} ms" for row in key_rows]
    return f"{series_name(*series).capitalize()}: {_list(list(dict.fromkeys(parts)))}."


def queue_lengths(tables: Tables, run: str) -> str:
    """The longest queue."""
    rows = select(tables, "queues", run=run)
    peak = max(rows, key=lambda row: row["messages"])
    last = max(row["second"] for row in rows)
    remaining = sum(row["messages"] for row in rows if row["second"] == last)
    queues = len(distinct(rows, "queue"))
    return (
        f"{queues:,} {'queues' if queues > 1 else 'queue'}; the longest was {peak['queue']} with"
        f" {number(peak['messages'])} messages after {number(peak['second'])} s; {number(remaining)} waited at the end."
    )


def processor_time(tables: Tables, run: str) -> str:
    """Mean processor time per process, highest first."""
    shares: dict[str, list[float]] = {}
    for row in select(tables, "costs", run=run):
        if row["cpu_share"] is not None:
            shares.setdefault(row["process"], []).append(row["cpu_share"])
    means = {name: sum(values) / len(values) for name, values in shares.items()}
    order = sorted(means, key=lambda name: -means[name])
    return f"On average {_list([f'{name} used {means[name]:.2f} cores' for name in order])}."


def scaling_curve(tables: Tables, experiment: str, factor: str, level: float | None = None) -> str:
    """The lowest and highest mean, with the levels of all factors there."""
    rows = select(tables, "curves", experiment=experiment, factor=factor, **WHOLE)
    ranges = [
        _extremes(metric_rows, factor, words)
        for metric, words in CURVE_WORDS.items()
        if (metric_rows := [row for row in rows if row["metric"] == metric and row["mean"] is not None])
    ]
    end = f"{error_bars(tables, experiment, rows, level)}.{_part_drawn(rows, MAX_FAMILIES)}"
    return f"{'; '.join(ranges)}; {end}"


def curves_by_operation(tables: Tables, experiment: str, factor: str, metric: str, level: float | None = None) -> str:
    """The lowest and highest mean of the first operations, with the levels of all factors there."""
    rows = operation_curves(tables, experiment, factor, metric)
    ranges = [
        f"{series_name(*series)}: {_extremes(group, factor, CURVE_WORDS[metric])}"
        for series, group in _first(list(by_series(rows).items()))
    ]
    end = f"{error_bars(tables, experiment, rows, level)}.{_part_drawn(rows, MAX_PANELS)}"
    return f"{'; '.join(ranges)}; {end}"


def _extremes(rows: Sequence[Row], factor: str, words: str) -> str:
    """The lowest and the highest mean."""
    lowest, highest = min(rows, key=lambda row: row["mean"]), max(rows, key=lambda row: row["mean"])
    return (
        f"from {number(lowest['mean'])} {words} at {_levels(lowest, factor)}"
        f" to {number(highest['mean'])} at {_levels(highest, factor)}"
    )


def _levels(row: Row, factor: str) -> str:
    """The levels of all factors of a row of `curves`, each with its factor."""
    others = other_levels(row)
    return f"{factor} {row['level']}{f' with {others}' if others else ''}"


def _part_drawn(rows: Sequence[Row], limit: int) -> str:
    families = len(distinct_families(rows))
    return f" {limit} of {families} combinations of the other factors' levels are drawn." if families > limit else ""


def effects(tables: Tables, experiment: str, metric: str, level: float | None = None) -> str:
    """The strongest effects, and how many intervals contain 0."""
    rows = select(tables, "effects", experiment=experiment, metric=metric, **WHOLE)
    mean = next((row["value"] for row in rows if row["effect"] in MEAN_NAMES), None)
    effect_rows = strongest_first(rows)
    start = f"Mean {number(mean)}; strongest effects" if mean is not None else "Strongest effects"
    return f"{start}: {_strongest(effect_rows)}. {_effect_intervals(tables, experiment, effect_rows, level)}"


def effects_by_operation(tables: Tables, experiment: str, metric: str, level: float | None = None) -> str:
    """The strongest effect of the first operations, and how many intervals contain 0."""
    groups = {series: strongest_first(rows) for series, rows in operation_effects(tables, experiment, metric).items()}
    parts = [f"{series_name(*series)}: {_strongest(rows[:1])}" for series, rows in _first(list(groups.items()))]
    effect_rows = [row for rows in groups.values() for row in rows]
    intervals = _effect_intervals(tables, experiment, effect_rows, level)
    return f"Strongest effect of each operation: {'; '.join(parts)}. {intervals}"


def _strongest(effect_rows: Sequence[Row]) -> str:
    return _list([f"{row['effect']} {number(row['value'])}{_interval(row)}" for row in _first(effect_rows)])


def _effect_intervals(tables: Tables, experiment: str, effect_rows: Sequence[Row], level: float | None) -> str:
    with_bounds = [row for row in effect_rows if row["low"] is not None and row["high"] is not None]
    if not with_bounds:
        return "No repetitions, so no intervals."
    unsure = sum(spans_zero(row) for row in with_bounds)
    intervals = over_repetitions(tables, experiment, level)
    return f"Bars: {intervals}; {unsure} of {len(with_bounds)} contain 0 (hollow)."


def variation(tables: Tables, experiment: str, metric: str) -> str:
    """The effects that explain most of the variation."""
    return f"{_explained(select(tables, 'effects', experiment=experiment, metric=metric, **WHOLE), MAX_NAMED)}."


def variation_by_operation(tables: Tables, experiment: str, metric: str) -> str:
    """The effect that explains most of the variation of the first operations."""
    groups = _first(list(operation_effects(tables, experiment, metric).items()))
    return f"{'; '.join(f'{series_name(*series)}: {_explained(rows, 1)}' for series, rows in groups)}."


def _explained(rows: Sequence[Row], limit: int) -> str:
    """The effects that explain most, and the share of errors."""
    shares = [row for row in rows if row["variation_percent"] is not None]
    chance = [row["variation_percent"] for row in shares if row["effect"] in ERROR_NAMES]
    effect_rows = sorted(
        (row for row in shares if row["effect"] not in ERROR_NAMES), key=lambda row: -row["variation_percent"]
    )
    parts = [f"{row['effect']} explains {row['variation_percent']:.1f} %" for row in effect_rows[:limit]]
    return _list([*parts, f"{chance[0]:.1f} % is error"] if chance else parts)


def predicted_and_measured(tables: Tables, experiment: str, level: float | None = None) -> str:
    """The mean error of each model, and what the bands are."""
    errors = []
    rows = [r for r in select(tables, "models", experiment=experiment) if r["measured"] and r["predicted"] is not None]
    for model in (model for model in distinct(rows, "model") if model != "bounds"):
        metric_errors = []
        for metric in distinct((row for row in rows if row["model"] == model), "metric"):
            pairs = [row for row in rows if (row["model"], row["metric"]) == (model, metric)]
            mean = sum(abs(row["predicted"] / row["measured"] - 1) for row in pairs) / len(pairs)
            metric_errors.append(f"{100 * mean:.0f} % in {METRICS.get(metric, metric).removesuffix(' (ms)')}")
        errors.append(f"{MODELS.get(model, (model, None))[0]} is off by {_list(metric_errors)}")
    bounds = [row for row in rows if row["model"] == "bounds"]
    error_text = f"On average {'; '.join(errors)}." if errors else ""
    beyond_text = (
        f" {sum(map(_beyond_bounds, bounds))} of {len(bounds)} measurements lie beyond the bounds." if bounds else ""
    )
    fitted = distinct((row for row in rows if row["low"] is not None and row["high"] is not None), "model")
    names = _list([MODELS.get(model, (model, None))[0] for model in fitted])
    band_text = f" Band: {percent(level)} confidence interval of the fit, {names}.".replace("  ", " ") if fitted else ""
    return f"{error_text}{beyond_text}{band_text}".strip() or "No model has a measurement to compare with."


def _beyond_bounds(row: Row) -> bool:
    """Whether a throughput is above its bound, or a response time below it, by more than rounding."""
    if row["metric"] == "throughput":
        return bool(row["measured"] > row["predicted"] * ROUNDING_TOLERANCE)
    return bool(row["measured"] * ROUNDING_TOLERANCE < row["predicted"])


def _summary(tables: Tables, run: str) -> dict[tuple[str, str], Row]:
    tier = tier_of(tables, "summary", run)
    rows = select(tables, "summary", run=run, tier=tier) if tier else []
    return {series: group[0] for series, group in by_series(rows).items()}


def _overall(rows: Mapping[tuple[str, str], Row]) -> Row | None:
    """The row over all operations."""
    return next((row for series, row in rows.items() if series[0] == ALL), None)


def _largest_phases(row: Row) -> str:
    """The phases that take most of the time, with their shares of it."""
    lengths = {phase.label: part(row, phase) or 0.0 for phase in STACKED_PHASES}
    total = sum(max(0.0, length) for length in lengths.values()) or 1.0
    order = sorted(lengths, key=lambda label: -lengths[label])[:MAX_NAMED]
    return _list([f"{label} {100 * lengths[label] / total:.0f} %" for label in order if lengths[label] > 0])


def _interval(row: Row) -> str:
    return "" if row["low"] is None or row["high"] is None else f" ({number(row['low'])} to {number(row['high'])})"


def _percent(share: float) -> str:
    """Never rounds up to 100 %."""
    if share < 1 and share > 0.999:
        return "over 99.9 %"
    return f"{number(100 * share)} %"


def _first(items: Sequence[Item]) -> Sequence[Item]:
    return items[:MAX_NAMED]


def _list(parts: Sequence[str]) -> str:
    return ", ".join(parts)
