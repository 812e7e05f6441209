"""Figures of a whole experiment: curves against a factor, effects of a 2k design, models and measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from stafette.report.figures.style import (
    BLUE,
    GREY,
    INK,
    OCHRE,
    PAPER,
    PURPLE,
    SEQUENCE,
    SHADE,
    VERMILION,
    LineStyle,
    error_bars,
    finish,
    line_style,
    name_rows,
    number,
    plain,
    short,
)
from stafette.report.figures.table_rows import (
    WHOLE,
    Row,
    Series,
    Tables,
    by_series,
    distinct,
    levels_of,
    numeric,
    select,
    series_name,
)
from stafette.runs.outcomes import ALL

METRICS = {
    "throughput": "answers per second",
    "mean_ms": "mean response time (ms)",
    "stddev_ms": "standard deviation of the response time (ms)",
    "p2_5_ms": "p2.5 of the response time (ms)",
    "p50_ms": "median response time (ms)",
    "p95_ms": "p95 of the response time (ms)",
    "p97_5_ms": "p97.5 of the response time (ms)",
    "p99_ms": "p99 of the response time (ms)",
    "error_share": "share of errors",
}
"""Metrics with the title of their axis."""

_RESPONSE = {
    "mean_ms": ("mean", SEQUENCE[0]),
    "p50_ms": ("median", SEQUENCE[2]),
    "p95_ms": ("p95", SEQUENCE[3]),
    "p99_ms": ("p99", SEQUENCE[1]),
}
MODELS = {
    "mva": ("mean value analysis", LineStyle(VERMILION, "dash", "square")),
    "usl": ("Universal Scalability Law", LineStyle(PURPLE, "dot", "diamond")),
    "bounds": ("asymptotic bounds", LineStyle(GREY, "solid", "cross")),
    "mm1": ("M/M/1", LineStyle(OCHRE, "dashdot", "triangle-up")),
    "mmm": ("M/M/m", LineStyle(INK, "longdash", "x")),
}
LOG_FROM = 20.0
"""Levels that differ by more than this factor get a logarithmic axis."""
ERROR_NAMES = frozenset({"error", "errors", "residual"})
MEAN_NAMES = frozenset({"mean", "I"})
MAX_FAMILIES = len(SEQUENCE)
"""Combinations of the other factors' levels that one figure draws as lines."""
OPERATIONS_HEIGHT = 0.7
"""Part of an effect's row that its operations take."""
PATTERNS = ("", "/", "x", ".", "-", "\\", "|", "+")
"""Of bars of operations."""
MAX_PANELS = 6
"""Combinations that get a panel of their own where every operation has a line."""


def scaling_curve(tables: Tables, experiment: str, factor: str) -> go.Figure | None:
    """Throughput and response time of all answered requests against a factor, intervals over repetitions as bars."""
    rows = select(tables, "curves", experiment=experiment, factor=factor, **WHOLE)
    if len(distinct(rows, "level")) < 2:
        return None
    families = distinct_families(rows)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    x_of = _axis(figure, [row["level"] for row in rows])
    for family, style in zip(families, SEQUENCE, strict=False):
        family_rows = [row for row in rows if other_levels(row) == family]
        name = family or "throughput"
        _add_curve(figure, family_rows, "throughput", name, style, x_of, row=1, legend=bool(family))
        if len(families) > 1:
            _add_curve(figure, family_rows, "mean_ms", name, style, x_of, row=2, legend=False)
            continue
        for metric, (label, metric_style) in _RESPONSE.items():
            _add_curve(figure, family_rows, metric, label, metric_style, x_of, row=2, legend=True)
    figure.update_yaxes(title_text="answers per second", row=1, col=1)
    title = "mean response time (ms)" if len(families) > 1 else "response time (ms)"
    figure.update_yaxes(title_text=title, row=2, col=1)
    figure.update_xaxes(title_text=plain(factor), row=2, col=1)
    return finish(figure, 560)


def curves_by_operation(tables: Tables, experiment: str, factor: str, metric: str) -> go.Figure | None:
    """A metric of each operation against a factor; a panel for each combination of the other factors' levels."""
    rows = operation_curves(tables, experiment, factor, metric)
    if len(distinct(rows, "operation")) < 2 or len(distinct(rows, "level")) < 2:
        return None
    families = distinct_families(rows)[:MAX_PANELS]
    figure = make_subplots(rows=len(families), cols=1, shared_xaxes=True, vertical_spacing=0.14 / max(2, len(families)))
    x_of = _axis(figure, [row["level"] for row in rows])
    in_legend: set[str] = set()
    for panel, family in enumerate(families, start=1):
        family_rows = [row for row in rows if other_levels(row) == family]
        for series, curve_rows in by_series(family_rows).items():
            name = series_name(*series)
            _add_curve(figure, curve_rows, metric, name, line_style(*series), x_of, row=panel,
                       legend=name not in in_legend)  # fmt: skip
            in_legend.add(name)
        title = f"{plain(family)}<br>{METRICS[metric]}" if family else METRICS[metric]
        figure.update_yaxes(title_text=title, row=panel, col=1)
    figure.update_xaxes(title_text=plain(factor), row=len(families), col=1)
    figure.update_layout(showlegend=True)
    return finish(figure, 110 + 250 * len(families))


def operation_curves(tables: Tables, experiment: str, factor: str, metric: str) -> list[Row]:
    """Rows of the curves of each operation, without those over all operations."""
    rows = select(tables, "curves", experiment=experiment, factor=factor, metric=metric)
    return [row for row in rows if row["operation"] != ALL and row["mean"] is not None]


def distinct_families(rows: Sequence[Row]) -> list[str]:
    """The combinations of the other factors' levels."""
    return list(dict.fromkeys(other_levels(row) for row in rows))


def effects(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """Effects of a 2k design without the mean, strongest first, with intervals; one that spans 0 is hollow."""
    rows = strongest_first(select(tables, "effects", experiment=experiment, metric=metric, **WHOLE))
    if not rows:
        return None
    figure = go.Figure(_effect_markers(rows, list(range(len(rows))), LineStyle(BLUE), showlegend=False))
    _finish_effects(figure, metric, [row["effect"] for row in rows])
    return finish(figure, 110 + 28 * len(rows))


def effects_by_operation(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """Effects on each operation, side by side; None if there is only one operation."""
    groups = {series: strongest_first(rows) for series, rows in operation_effects(tables, experiment, metric).items()}
    names = _effect_names([row for rows in groups.values() for row in rows])
    if len(groups) < 2 or not names:
        return None
    figure = go.Figure()
    for index, (series, rows) in enumerate(groups.items()):
        offset = ((index + 0.5) / len(groups) - 0.5) * OPERATIONS_HEIGHT
        y = [round(names.index(row["effect"]) + offset, 4) for row in rows]
        figure.add_trace(_effect_markers(rows, y, line_style(*series), name=plain(series_name(*series))))
    figure.update_layout(showlegend=True)
    _finish_effects(figure, metric, names)
    return finish(figure, 130 + 14 * (len(groups) + 1) * len(names))


def variation(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """The share of the variation that each effect explains, and the share of errors."""
    rows = _shares(select(tables, "effects", experiment=experiment, metric=metric, **WHOLE))
    if not rows:
        return None
    by_chance = [row["effect"] in ERROR_NAMES for row in rows]
    marker = {
        "color": [GREY if chance else BLUE for chance in by_chance],
        "pattern": {"shape": ["/" if chance else "" for chance in by_chance], "size": 6, "fillmode": "overlay",
                    "fgcolor": PAPER},
    }  # fmt: skip
    figure = go.Figure(_share_bars(rows, list(range(len(rows))), marker=marker, showlegend=False))
    _finish_variation(figure, rows, [row["effect"] for row in rows])
    return finish(figure, 110 + 28 * len(rows))


def variation_by_operation(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """The share of each operation's variation that each effect explains; None if there is only one operation."""
    groups = {series: _shares(rows) for series, rows in operation_effects(tables, experiment, metric).items()}
    groups = {series: rows for series, rows in groups.items() if rows}
    if len(groups) < 2:
        return None
    all_rows = [row for rows in groups.values() for row in rows]
    effect_names = _effect_names([row for row in all_rows if row["effect"] not in ERROR_NAMES])
    names = [*effect_names, *(name for name in distinct(all_rows, "effect") if name in ERROR_NAMES)]
    figure = go.Figure()
    for index, (series, rows) in enumerate(groups.items()):
        marker = {"color": line_style(*series).colour,
                  "pattern": {"shape": PATTERNS[index % len(PATTERNS)], "size": 6, "fillmode": "overlay",
                              "fgcolor": PAPER}}  # fmt: skip
        y = [names.index(row["effect"]) for row in rows]
        figure.add_trace(_share_bars(rows, y, marker=marker, name=plain(series_name(*series))))
    figure.update_layout(showlegend=True, barmode="group")
    _finish_variation(figure, all_rows, names)
    return finish(figure, 130 + 14 * (len(groups) + 1) * len(names))


def strongest_first(rows: Sequence[Row]) -> list[Row]:
    """Rows of effects, without the mean and the errors."""
    named = [row for row in rows if row["value"] is not None and row["effect"] not in MEAN_NAMES | ERROR_NAMES]
    return sorted(named, key=lambda row: -abs(row["value"]))


def operation_effects(tables: Tables, experiment: str, metric: str) -> dict[Series, list[Row]]:
    """Rows of the effects on each operation, without those on all operations."""
    rows = select(tables, "effects", experiment=experiment, metric=metric)
    return by_series(row for row in rows if row["operation"] not in {ALL, None})


def _effect_names(rows: Sequence[Row]) -> list[str]:
    """The effects of several operations, the one with the highest value first."""
    highest: dict[str, float] = {}
    for row in rows:
        highest[row["effect"]] = max(highest.get(row["effect"], 0.0), abs(row["value"] or 0.0))
    return sorted(highest, key=lambda name: -highest[name])


def _effect_markers(rows: Sequence[Row], y: Sequence[float], style: LineStyle, **options: Any) -> go.Scatter:
    values = [row["value"] for row in rows]
    symbols = [f"{style.symbol}-open" if spans_zero(row) else style.symbol for row in rows]
    return go.Scatter(
        x=[short(value) for value in values], y=y, mode="markers",
        marker={"color": style.colour, "size": 10, "symbol": symbols, "line": {"width": 2, "color": style.colour}},
        error_x=error_bars(values, [row["low"] for row in rows], [row["high"] for row in rows], style.colour),
        hovertemplate="%{x:,.3~g}", **options,
    )  # fmt: skip


def _finish_effects(figure: go.Figure, metric: str, names: list[str]) -> None:
    figure.add_vline(x=0, line={"color": INK, "width": 1})
    figure.update_xaxes(title_text=f"effect on {METRICS.get(metric, plain(metric))}", rangemode="normal")
    name_rows(figure, names)


def _shares(rows: Sequence[Row]) -> list[Row]:
    """Rows with a share of the variation, highest first, errors last."""
    shares = [row for row in rows if row["variation_percent"] is not None and row["effect"] not in MEAN_NAMES]
    return sorted(shares, key=lambda row: (row["effect"] in ERROR_NAMES, -row["variation_percent"]))


def _share_bars(rows: Sequence[Row], y: Sequence[float], **options: Any) -> go.Bar:
    shares = [row["variation_percent"] for row in rows]
    return go.Bar(
        x=[short(share) for share in shares], y=y, orientation="h", textposition="outside", cliponaxis=False,
        text=[f"{share:.1f} %" if share >= 0.05 else "< 0.1 %" for share in shares], hovertemplate="%{x:.3~g} %",
        **options,
    )  # fmt: skip


def _finish_variation(figure: go.Figure, rows: Sequence[Row], names: list[str]) -> None:
    highest = max(row["variation_percent"] for row in rows)
    figure.update_xaxes(title_text="share of the variation (%)", range=[0, min(112, highest * 1.18 + 1)])
    name_rows(figure, names)


def predicted_and_measured(tables: Tables, experiment: str) -> go.Figure | None:
    """Predictions of the models and measurements, against the number of clients."""
    rows = select(tables, "models", experiment=experiment)
    metrics = [metric for metric in METRICS if any(row["metric"] == metric for row in rows)]
    metrics += [metric for metric in distinct(rows, "metric") if metric not in METRICS]
    if not rows:
        return None
    figure = make_subplots(rows=len(metrics), cols=1, shared_xaxes=True, vertical_spacing=0.14 / max(2, len(metrics)))
    _axis(figure, [row["x"] for row in rows])
    in_legend: set[str] = set()
    for panel, metric in enumerate(metrics, start=1):
        metric_rows = sorted((row for row in rows if row["metric"] == metric), key=lambda row: row["x"])
        models = distinct(metric_rows, "model")
        for model in [*(m for m in MODELS if m in models), *(m for m in models if m not in MODELS)]:
            _add_model(figure, model, [row for row in metric_rows if row["model"] == model], panel, in_legend)
        measured = {row["x"]: row["measured"] for row in metric_rows if row["measured"] is not None}
        figure.add_trace(
            go.Scatter(
                x=list(measured), y=[short(value) for value in measured.values()], name="measured", mode="markers",
                marker={"color": BLUE, "size": 10, "symbol": "circle"}, showlegend="measured" not in in_legend,
                legendgroup="measured", hovertemplate="%{y:,.4~g}",
            ),
            row=panel, col=1,
        )  # fmt: skip
        in_legend.add("measured")
        figure.update_yaxes(title_text=METRICS.get(metric, plain(metric)), row=panel, col=1)
        _limit_y_axis(figure, metric_rows, panel)
    figure.update_xaxes(title_text="clients", row=len(metrics), col=1)
    figure.update_layout(hovermode="x unified")
    return finish(figure, 110 + 250 * len(metrics))


def spans_zero(row: Row) -> bool:
    """Whether an effect's interval contains 0."""
    low, high = row["low"], row["high"]
    return low is not None and high is not None and low <= 0 <= high


def other_levels(row: Row) -> str:
    """The levels of the other factors of a row of `curves`, in words."""
    levels = levels_of(row, "other_levels")
    return ", ".join(f"{name} {number(level) if isinstance(level, float) else level}" for name, level in levels.items())


def _axis(figure: go.Figure, levels: list[Any]) -> Any:
    """Set the x axis, with ticks at the levels; return the function from level to x."""
    numbers = numeric(levels)
    if numbers is None:
        figure.update_xaxes(type="category")
        return lambda level: plain(level, 24)
    positions = sorted(set(numbers))
    log = positions[0] > 0 and positions[-1] / positions[0] > LOG_FROM
    figure.update_xaxes(
        type="log" if log else "linear",
        tickvals=positions,
        ticktext=[number(int(p) if p == int(p) else p) for p in positions],
    )
    return float


def _add_curve(
    figure: go.Figure, rows: list[Row], metric: str, name: str, style: LineStyle, x_of: Any, *, row: int, legend: bool
) -> None:
    points = [entry for entry in rows if entry["metric"] == metric and entry["mean"] is not None]
    if not points:
        return
    if numeric(entry["level"] for entry in points) is not None:
        points.sort(key=lambda entry: float(entry["level"]))
    means = [entry["mean"] for entry in points]
    figure.add_trace(
        go.Scatter(
            x=[x_of(entry["level"]) for entry in points], y=[short(mean) for mean in means], name=plain(name),
            legendgroup=name, showlegend=legend, mode="lines+markers",
            line={"color": style.colour, "dash": style.dash, "width": 2},
            marker={"color": style.colour, "symbol": style.symbol, "size": 8},
            error_y=error_bars(means, [e["low"] for e in points], [e["high"] for e in points], style.colour),
            hovertemplate="%{y:,.4~g}",
        ),
        row=row, col=1,
    )  # fmt: skip


def _add_model(figure: go.Figure, model: str, rows: list[Row], panel: int, in_legend: set[str]) -> None:
    name, style = MODELS.get(model, (plain(model), LineStyle(GREY, "dash")))
    x = [row["x"] for row in rows]
    if any(row["low"] is not None and row["high"] is not None for row in rows):
        for column, fill in (("low", None), ("high", "tonexty")):
            figure.add_trace(
                go.Scatter(
                    x=x, y=[short(row[column]) for row in rows], mode="lines", fill=fill, legendgroup=name,
                    fillcolor=style.colour + SHADE, line={"color": style.colour, "width": 0.5}, showlegend=False,
                    hoverinfo="skip", name=name,
                ),
                row=panel, col=1,
            )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=x, y=[short(row["predicted"]) for row in rows], name=name, legendgroup=name,
            showlegend=name not in in_legend, mode="lines+markers",
            line={"color": style.colour, "dash": style.dash, "width": 1.5},
            marker={"color": style.colour, "symbol": style.symbol + "-open", "size": 7}, hovertemplate="%{y:,.4~g}",
        ),
        row=panel, col=1,
    )  # fmt: skip
    in_legend.add(name)


def _limit_y_axis(figure: go.Figure, rows: list[Row], panel: int) -> None:
    """Cut the axis above the measurements: a bound far above would flatten them."""
    measured = [row["measured"] for row in rows if row["measured"] is not None]
    predictions = [row[c] for row in rows for c in ("predicted", "high") if row[c] is not None]
    if measured and predictions and max(predictions) > 3 * max(measured):
        figure.update_yaxes(range=[0, 2 * max(measured)], row=panel, col=1)
