"""The body of the report: sections in the order in which readers ask, each a few figures with their tables.

Sections without data are left out; a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import plotly.graph_objects as go

from stafette.report import captions, figures
from stafette.report.figures.experiment_figures import METRICS, operation_curves, operation_effects
from stafette.report.figures.over_time import MAX_POINTS
from stafette.report.figures.style import PHASES, number
from stafette.report.figures.table_rows import (
    WHOLE,
    Row,
    RunMetadata,
    Tables,
    by_series,
    distinct,
    select,
    series_name,
    tier_of,
)
from stafette.report.grids import MAX_ROWS, Cell, Grid, build_grid, grid
from stafette.report.interval_words import level_of
from stafette.report.sign_table import sign_table

MAX_RUNS = 30
"""Runs that are drawn one by one; keeps the file below 8 MB."""
POINTS_IN_ALL, ROWS_IN_ALL = 12_000, 1_800
"""Limits over all runs, per line and per table; they keep the file small."""
EFFECT_METRICS = ("throughput", "mean_ms", "p99_ms")
OPERATION_METRICS = ("throughput", "mean_ms")
EFFECT_COLUMNS, SHARE_COLUMNS = ("effect", "value", "low", "high"), ("effect", "variation_percent")
CURVE_COLUMNS = ("level", "other_levels", "metric", "mean", "stddev", "low", "high")
PHASE_COLUMNS = ("operation", "outcome", "phase", "count", "mean_ms", "stddev_ms", "p50_ms", "p95_ms", "p99_ms",
                 "max_ms")  # fmt: skip


@dataclass(frozen=True)
class Drawing:
    """A figure with its title, its caption and the numbers behind it."""

    title: str
    caption: str
    figure: go.Figure
    grid: Grid
    run: int | None = None
    """Index of the run, if there is one such figure per run."""
    half: bool = False
    """Whether it takes half the width, beside another one."""
    tables: list[tuple[str, Grid]] = field(default_factory=list)
    """More tables, with their headings."""


@dataclass
class Section:
    """A part of the report."""

    id: str
    title: str
    drawings: list[Drawing] = field(default_factory=list)
    grids: list[tuple[str, Grid]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether it has nothing but notes."""
        return not self.drawings and not self.grids

    @property
    def per_run(self) -> bool:
        """Whether the reader chooses a run."""
        return len({drawing.run for drawing in self.drawings if drawing.run is not None}) > 1


def sections(
    tables: Tables, runs: Sequence[RunMetadata], notes: Sequence[str] = (), level: float | None = None
) -> list[Section]:
    """All sections with data, in order; the last one says why others are missing.

    `level` is the confidence level of the analysis, by default that in the summary.
    """
    drawn = drawn_runs(runs)
    level = level_of(tables) if level is None else level
    limit = max(20, min(MAX_ROWS, ROWS_IN_ALL // max(1, len(drawn))))
    all_sections = [
        _over_time(tables, drawn, limit),
        _breakdown(tables, drawn, runs, limit),
        _distribution(tables, drawn, limit),
        _curves(tables, level),
        _points(tables),
        _effects(tables, level),
        _models(tables, level),
        _resources(tables, drawn, limit),
        _checks(tables, runs),
    ]
    if len(runs) > MAX_RUNS:
        order = "invalid ones and first repetitions first; the tables have all"
        all_sections[0].notes.append(f"{MAX_RUNS} of {len(runs):,} runs are drawn, {order}.")
    empty_notes = [note for section in all_sections if section.empty for note in section.notes]
    missing = Section("left-out", "Not in this report", notes=empty_notes)
    missing.notes.extend(f"{note[:1].upper()}{note[1:]}." for note in notes)
    return [section for section in all_sections if not section.empty] + ([missing] if missing.notes else [])


def drawn_runs(runs: Sequence[RunMetadata]) -> list[RunMetadata]:
    """The runs that are drawn one by one, in the order of `runs`; invalid ones and first repetitions are preferred."""
    by_interest = sorted(range(len(runs)), key=lambda index: (runs[index].valid is not False, runs[index].repetition))
    return [runs[index] for index in sorted(by_interest[:MAX_RUNS])]


def _over_time(tables: Tables, runs: Sequence[RunMetadata], limit: int) -> Section:
    section = Section("over-time", "Over time")
    points = max(60, min(MAX_POINTS, POINTS_IN_ALL // max(1, len(runs))))
    columns = ["second", "operation", "outcome", "throughput_per_s", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"]
    for index, run in enumerate(runs):
        stages = run.stages(tables)
        tier = tier_of(tables, "windows", run.run)
        rows = select(tables, "windows", run=run.run, tier=tier) if tier else []
        rows.sort(key=lambda row: (row["second"], row["operation"], row["outcome"]))
        _add(section, "Throughput over time", figures.throughput_over_time(tables, run.run, stages, points),
             partial(captions.throughput, tables, run.run, stages),
             partial(grid, rows, "windows", columns[:4], limit), index)  # fmt: skip
        _add(section, "Response time over time", figures.response_time_over_time(tables, run.run, stages, points),
             partial(captions.response_time, tables, run.run, _merging_note(rows, points)),
             partial(grid, rows, "windows", [c for c in columns if c != "throughput_per_s"], limit), index)  # fmt: skip
    return _or_note(section, "There are no windows of time: no request ended while the load ran.")


def _merging_note(rows: Sequence[Row], points: int) -> str:
    windows = len(distinct(rows, "second"))
    if windows <= points:
        return ""
    return f"Of every {-(-windows // points)} neighbouring windows, the one with the highest p99 is drawn."


def _breakdown(tables: Tables, drawn: Sequence[RunMetadata], runs: Sequence[RunMetadata], limit: int) -> Section:
    section = Section("breakdown", "Where the time goes")
    points = max(60, min(MAX_POINTS, POINTS_IN_ALL // (2 * max(1, len(drawn)))))
    for index, run in enumerate(drawn):
        drawings = len(section.drawings)
        _add(section, "Response time along the request's way", figures.breakdown(tables, run.run),
             partial(captions.breakdown, tables, run.run),
             partial(grid, select(tables, "breakdown", run=run.run), "breakdown"), index)  # fmt: skip
        _add(section, "Phases over time",
             figures.phases_over_time(tables, run.run, run.stages(tables), points),
             partial(captions.phases_over_time, tables, run.run),
             partial(grid, select(tables, "phase_windows", run=run.run), "phase_windows", limit=limit // 2),
             index)  # fmt: skip
        phases = _phases(tables, run.run, limit // 2)
        if phases and len(section.drawings) > drawings:
            section.drawings[drawings].tables.append(("Phases of each operation", phases))
        elif phases:
            section.grids.append((f"Phases of each operation, {run.title}", phases))
    _add_breakdown_by_point(section, tables, runs)
    return _or_note(section, "There is no breakdown: it needs traces of both tiers, with phases.")


def _phases(tables: Tables, run: str, limit: int) -> Grid | None:
    """Moments and percentiles of each phase of each operation, in the order in which a request passes the phases."""
    labels = {phase.name: phase.label for phase in PHASES}
    order = list(labels)
    rows = []
    for group in by_series(select(tables, "phases", run=run)).values():
        group.sort(key=lambda row: order.index(row["phase"]) if row["phase"] in labels else len(order))
        rows += [{**row, "phase": labels.get(row["phase"], row["phase"])} for row in group]
    return grid(rows, "phases", PHASE_COLUMNS, limit) if rows else None


def _add_breakdown_by_point(section: Section, tables: Tables, runs: Sequence[RunMetadata]) -> None:
    for experiment in dict.fromkeys(run.experiment for run in runs):
        experiment_runs = [run for run in runs if run.experiment == experiment and not run.left_out]
        labels, titles = (
            {run.run: run.label or run.run for run in experiment_runs},
            {run.run: run.title for run in experiment_runs},
        )
        rows = [row for run in experiment_runs for row in select(tables, "breakdown", run=run.run)]
        for operation, outcome in list(by_series(rows))[:2]:
            operation_rows = [row for row in rows if (row["operation"], row["outcome"]) == (operation, outcome)]
            _add(section, f"{operation} at every point{_suffix(experiment, runs)}",
                 figures.breakdown_by_point(tables, experiment_runs, operation, outcome),
                 partial(captions.breakdown_by_point, operation_rows, labels),
                 partial(grid, [{**row, "run": titles[row["run"]]} for row in operation_rows], "breakdown",
                         [c for c in operation_rows[0] if c not in {"operation", "outcome"}]))  # fmt: skip


def _distribution(tables: Tables, runs: Sequence[RunMetadata], limit: int) -> Section:
    section = Section("distribution", "Distribution")
    for index, run in enumerate(runs):
        _add(section, "Distribution of the response time", figures.distribution(tables, run.run),
             partial(captions.distribution, tables, run.run),
             partial(grid, select(tables, "distribution", run=run.run), "distribution", limit=limit),
             index)  # fmt: skip
        _add(section, "Answered within a limit", figures.share_below_limits(tables, run.run),
             partial(captions.share_below_limits, tables, run.run),
             partial(_limits, tables, run.run), index)  # fmt: skip
    return _or_note(section, "There is no distribution: no request started in the measured window.")


def _limits(tables: Tables, run: str) -> Grid:
    """A row per operation, a column per limit."""
    rows = select(tables, "shares", run=run, tier=tier_of(tables, "shares", run))
    limits = sorted({row["limit_ms"] for row in rows})
    body = []
    for series, group in by_series(rows).items():
        share_by_limit = {row["limit_ms"]: row["share"] for row in group}
        cells = [Cell(_share(share_by_limit.get(limit)), True) for limit in limits]
        body.append([Cell(series_name(*series)), *cells])
    heads = ["% within", *(f"{number(limit)} ms" for limit in limits)]
    return build_grid(heads, body, "The same, unrounded: csv/shares.csv")


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return "> 99.99" if 0.9999 < share < 1 else f"{100 * share:.2f}"


def _curves(tables: Tables, level: float | None) -> Section:
    section = Section("curves", "Against a factor")
    rows = select(tables, "curves")
    several = len(distinct(rows, "experiment")) > 1
    for experiment, factor in dict.fromkeys((row["experiment"], row["factor"]) for row in rows):
        curve_rows = [row for row in rows if (row["experiment"], row["factor"]) == (experiment, factor)]
        title = f"Throughput and response time against {factor}{f', {experiment}' if several else ''}"
        _add(section, title, figures.scaling_curve(tables, experiment, factor),
             partial(captions.scaling_curve, tables, experiment, factor, level),
             partial(grid, list(filter(_is_whole, curve_rows)), "curves", CURVE_COLUMNS))  # fmt: skip
        for metric in OPERATION_METRICS:
            title = f"{METRICS[metric].capitalize()} of each operation against {factor}"
            _add(section, f"{title}{f', {experiment}' if several else ''}",
                 figures.curves_by_operation(tables, experiment, factor, metric),
                 partial(captions.curves_by_operation, tables, experiment, factor, metric, level),
                 partial(grid, operation_curves(tables, experiment, factor, metric), "curves"))  # fmt: skip
    return _or_note(section, "There are no curves: they need runs at two or more levels of a factor.")


def _points(tables: Tables) -> Section:
    section = Section("points", "Points")
    rows = sorted(select(tables, "points"), key=lambda row: not _is_whole(row))
    if len({(row["experiment"], row["label"]) for row in rows}) > 1:
        columns = [name for name in rows[0] if name != "levels"]
        if len(distinct(rows, "experiment")) == 1:
            columns.remove("experiment")
        section.grids.append(("Every point, by operation and metric", grid(rows, "points", columns)))
    return section


def _is_whole(row: Row) -> bool:
    """Whether a row is over all answered requests."""
    return row.items() >= WHOLE.items()


def _effects(tables: Tables, level: float | None) -> Section:
    section = Section("effects", "Effects")
    rows = select(tables, "effects", **WHOLE)
    several = len(distinct(rows, "experiment")) > 1
    for experiment in distinct(rows, "experiment"):
        suffix = f", {experiment}" if several else ""
        for metric in (metric for metric in EFFECT_METRICS if any(row["metric"] == metric for row in rows)):
            name = METRICS[metric]
            metric_rows = select(tables, "effects", experiment=experiment, metric=metric, **WHOLE)
            _add(section, f"Effects on {name}{suffix}", figures.effects(tables, experiment, metric),
                 partial(captions.effects, tables, experiment, metric, level),
                 partial(grid, metric_rows, "effects", EFFECT_COLUMNS), half=True)  # fmt: skip
            _add(section, f"Share of the variation of {name}{suffix}", figures.variation(tables, experiment, metric),
                 partial(captions.variation, tables, experiment, metric),
                 partial(grid, metric_rows, "effects", SHARE_COLUMNS), half=True)  # fmt: skip
            if metric in OPERATION_METRICS:
                _add_operation_effects(section, tables, experiment, metric, suffix, level)
            signs = sign_table(tables, experiment, metric)
            if signs is not None:
                section.grids.append((f"Sign table: {name}{suffix}", signs))
    return _or_note(section, "There are no effects: they need a 2k design, with every factor at two levels.")


def _add_operation_effects(
    section: Section, tables: Tables, experiment: str, metric: str, suffix: str, level: float | None
) -> None:
    name, series_columns = METRICS[metric], ("operation", "outcome")
    rows = [row for group in operation_effects(tables, experiment, metric).values() for row in group]
    _add(section, f"Effects on {name} of each operation{suffix}",
         figures.effects_by_operation(tables, experiment, metric),
         partial(captions.effects_by_operation, tables, experiment, metric, level),
         partial(grid, rows, "effects", (*series_columns, *EFFECT_COLUMNS)), half=True)  # fmt: skip
    _add(section, f"Share of the variation of {name} of each operation{suffix}",
         figures.variation_by_operation(tables, experiment, metric),
         partial(captions.variation_by_operation, tables, experiment, metric),
         partial(grid, rows, "effects", (*series_columns, *SHARE_COLUMNS)), half=True)  # fmt: skip


def _models(tables: Tables, level: float | None) -> Section:
    section = Section("models", "Predicted and measured")
    rows = select(tables, "models")
    for experiment in distinct(rows, "experiment"):
        experiment_rows = [row for row in rows if row["experiment"] == experiment]
        several = len(distinct(rows, "experiment")) > 1
        _add(section, f"Models beside measurements{f', {experiment}' if several else ''}",
             figures.predicted_and_measured(tables, experiment),
             partial(captions.predicted_and_measured, tables, experiment, level),
             partial(grid, experiment_rows, "models"))  # fmt: skip
    return _or_note(section, "There are no models: they need closed loops with two or more numbers of clients.")


def _resources(tables: Tables, runs: Sequence[RunMetadata], limit: int) -> Section:
    section = Section("resources", "Queues and processor time")
    for index, run in enumerate(runs):
        stages = run.stages(tables)
        _add(section, "Queue lengths", figures.queue_lengths(tables, run.run, stages),
             partial(captions.queue_lengths, tables, run.run),
             partial(grid, select(tables, "queues", run=run.run), "queues", limit=limit), index)  # fmt: skip
        _add(section, "Processor time", figures.processor_time(tables, run.run, stages),
             partial(captions.processor_time, tables, run.run),
             partial(grid, select(tables, "costs", run=run.run), "costs", limit=limit), index)  # fmt: skip
    return _or_note(section, "There are no samples of queues and processes: only runs of the laboratory have them.")


def _checks(tables: Tables, runs: Sequence[RunMetadata]) -> Section:
    section = Section("checks", "Checks and laws")
    titles = {run.run: run.title for run in runs}
    check_rows = [{"run": run.title, **check} for run in runs for check in run.details.get("checks") or []]
    if check_rows:
        section.grids.append(
            ("Checks of the laboratory", grid(check_rows, "checks", ["run", "name", "ok", "sentence"]))
        )
    for name, title in (("laws", "Operational laws"), ("warm_up", "Warm-up"), ("stationarity", "Stationarity"),
                        ("joins", "Requests seen in both tiers")):  # fmt: skip
        rows = [{**row, "run": titles.get(row["run"], row["run"])} for row in select(tables, name)]
        rows.sort(key=lambda row: row.get("ok") is not False and row.get("stationary") is not False)
        if rows:
            section.grids.append((f"{title}{_count_passed(rows)}", grid(rows, name, list(rows[0]))))
    return _or_note(section, "No law could be checked: the source does not give the number of clients.")


def _count_passed(rows: Sequence[Row]) -> str:
    """The number of rows that pass, for tables of checks."""
    for column, words in (("ok", "hold"), ("stationary", "without a trend")):
        if column in rows[0]:
            return f": {sum(row[column] is True for row in rows):,} of {len(rows):,} {words}"
    return ""


def _suffix(experiment: str, runs: Sequence[RunMetadata]) -> str:
    """The experiment for a title, if there are several."""
    return f", {experiment}" if len({run.experiment for run in runs}) > 1 else ""


def _add(
    section: Section, title: str, figure: go.Figure | None, caption: Callable[[], str], numbers: Callable[[], Grid],
    run: int | None = None, *, half: bool = False,
) -> None:  # fmt: skip
    """Add a drawing if there is a figure; only then make its caption and table."""
    if figure is not None:
        section.drawings.append(Drawing(title, caption(), figure, numbers(), run, half))


def _or_note(section: Section, note: str) -> Section:
    if section.empty:
        section.notes.append(note)
    return section
