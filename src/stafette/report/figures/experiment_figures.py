"""Figures of a whole experiment: curves against a factor, effects of a 2k design, models and measurements."""

from __future__ import annotations

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
    name_rows,
    number,
    plain,
    short,
)
from stafette.report.figures.table_rows import Row, Tables, distinct, levels_of, numeric, select

METRICS = {
    "throughput": "answers per second",
    "mean_ms": "mean response time (ms)",
    "p50_ms": "median response time (ms)",
    "p95_ms": "p95 of the response time (ms)",
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


def scaling_curve(tables: Tables, experiment: str, factor: str) -> go.Figure | None:
    """Throughput and response time against a factor, 95 % intervals over repetitions as error bars."""
    rows = select(tables, "curves", experiment=experiment, factor=factor)
    if len(distinct(rows, "level")) < 2:
        return None
    families = list(dict.fromkeys(_other_levels(row) for row in rows))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    x_of = _axis(figure, [row["level"] for row in rows])
    for family, style in zip(families, SEQUENCE, strict=False):
        family_rows = [row for row in rows if _other_levels(row) == family]
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


def effects(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """Effects of a 2k design without the mean, strongest first, with 95 % intervals; one that spans 0 is hollow."""
    rows = [
        row
        for row in select(tables, "effects", experiment=experiment, metric=metric)
        if row["value"] is not None and row["effect"] not in {"mean", "I", *ERROR_NAMES}
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: -abs(row["value"]))
    values = [row["value"] for row in rows]
    bars = error_bars(values, [row["low"] for row in rows], [row["high"] for row in rows], BLUE)
    symbols = ["circle-open" if spans_zero(row) else "circle" for row in rows]
    figure = go.Figure(
        go.Scatter(
            x=[short(value) for value in values], y=list(range(len(rows))), mode="markers",
            marker={"color": BLUE, "size": 10, "symbol": symbols,
                    "line": {"width": 2, "color": BLUE}},
            error_x=bars, hovertemplate="%{x:,.3~g}", showlegend=False,
        )
    )  # fmt: skip
    figure.add_vline(x=0, line={"color": INK, "width": 1})
    figure.update_xaxes(title_text=f"effect on {METRICS.get(metric, plain(metric))}", rangemode="normal")
    name_rows(figure, [row["effect"] for row in rows])
    return finish(figure, 110 + 28 * len(rows))


def variation(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """The share of the variation that each effect explains, and the share of errors."""
    rows = [
        row
        for row in select(tables, "effects", experiment=experiment, metric=metric)
        if row["variation_percent"] is not None and row["effect"] not in {"mean", "I"}
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: (row["effect"] in ERROR_NAMES, -row["variation_percent"]))
    by_chance = [row["effect"] in ERROR_NAMES for row in rows]
    shares = [row["variation_percent"] for row in rows]
    figure = go.Figure(
        go.Bar(
            x=[short(share) for share in shares], y=list(range(len(rows))), orientation="h",
            marker={"color": [GREY if chance else BLUE for chance in by_chance],
                    "pattern": {"shape": ["/" if chance else "" for chance in by_chance], "size": 6,
                                "fillmode": "overlay", "fgcolor": PAPER}},
            text=[f"{share:.1f} %" if share >= 0.05 else "< 0.1 %" for share in shares],
            textposition="outside", cliponaxis=False, hovertemplate="%{x:.3~g} %", showlegend=False,
        )
    )  # fmt: skip
    figure.update_xaxes(title_text="share of the variation (%)", range=[0, min(112, max(shares) * 1.18 + 1)])
    name_rows(figure, [row["effect"] for row in rows])
    return finish(figure, 110 + 28 * len(rows))


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


def _other_levels(row: Row) -> str:
    column = next((name for name in row if name.startswith("other")), None)
    levels = levels_of(row, column) if column else {}
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
