"""What an experiment says as a whole: curves against a factor, effects of a 2k design, models beside measurements."""

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
    Look,
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
    "mva": ("mean value analysis", Look(VERMILION, "dash", "square")),
    "usl": ("Universal Scalability Law", Look(PURPLE, "dot", "diamond")),
    "bounds": ("asymptotic bounds", Look(GREY, "solid", "cross")),
    "mm1": ("M/M/1", Look(OCHRE, "dashdot", "triangle-up")),
    "mmm": ("M/M/m", Look(INK, "longdash", "x")),
}
LOG_FROM = 20.0
"""Levels that differ by more than this factor are set apart evenly on a logarithmic axis."""
ERROR_NAMES = frozenset({"error", "errors", "residual"})


def scaling_curve(tables: Tables, experiment: str, factor: str) -> go.Figure | None:
    """Throughput and response time against a factor, 95 % intervals over repetitions as error bars."""
    rows = select(tables, "curves", experiment=experiment, factor=factor)
    if len(distinct(rows, "level")) < 2:
        return None
    families = list(dict.fromkeys(_others(row) for row in rows))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    x_of = _axis(figure, [row["level"] for row in rows])
    for family, style in zip(families, SEQUENCE, strict=False):
        mine = [row for row in rows if _others(row) == family]
        name = family or "throughput"
        _add_curve(figure, mine, "throughput", name, style, x_of, row=1, legend=bool(family))
        if len(families) > 1:
            _add_curve(figure, mine, "mean_ms", name, style, x_of, row=2, legend=False)
            continue
        for metric, (label, look) in _RESPONSE.items():
            _add_curve(figure, mine, metric, label, look, x_of, row=2, legend=True)
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
    sure = [not spans_zero(row) for row in rows]
    figure = go.Figure(
        go.Scatter(
            x=[short(value) for value in values], y=list(range(len(rows))), mode="markers",
            marker={"color": BLUE, "size": 10, "symbol": ["circle" if known else "circle-open" for known in sure],
                    "line": {"width": 2, "color": BLUE}},
            error_x=bars, hovertemplate="%{x:,.3~g}", showlegend=False,
        )
    )  # fmt: skip
    figure.add_vline(x=0, line={"color": INK, "width": 1})
    figure.update_xaxes(title_text=f"effect on {METRICS.get(metric, plain(metric))}", rangemode="normal")
    name_rows(figure, [row["effect"] for row in rows])
    return finish(figure, 110 + 28 * len(rows))


def variation(tables: Tables, experiment: str, metric: str) -> go.Figure | None:
    """The share of the variation that each effect explains, and what is left to chance."""
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
    """What the models say beside what was measured, against the number of clients."""
    rows = select(tables, "models", experiment=experiment)
    metrics = [metric for metric in METRICS if any(row["metric"] == metric for row in rows)]
    metrics += [metric for metric in distinct(rows, "metric") if metric not in METRICS]
    if not rows:
        return None
    figure = make_subplots(rows=len(metrics), cols=1, shared_xaxes=True, vertical_spacing=0.14 / max(2, len(metrics)))
    _axis(figure, [row["x"] for row in rows])
    told: set[str] = set()
    for panel, metric in enumerate(metrics, start=1):
        mine = sorted((row for row in rows if row["metric"] == metric), key=lambda row: row["x"])
        models = distinct(mine, "model")
        for model in [*(m for m in MODELS if m in models), *(m for m in models if m not in MODELS)]:
            _add_model(figure, model, [row for row in mine if row["model"] == model], panel, told)
        measured = {row["x"]: row["measured"] for row in mine if row["measured"] is not None}
        figure.add_trace(
            go.Scatter(
                x=list(measured), y=[short(value) for value in measured.values()], name="measured", mode="markers",
                marker={"color": BLUE, "size": 10, "symbol": "circle"}, showlegend="measured" not in told,
                legendgroup="measured", hovertemplate="%{y:,.4~g}",
            ),
            row=panel, col=1,
        )  # fmt: skip
        told.add("measured")
        figure.update_yaxes(title_text=METRICS.get(metric, plain(metric)), row=panel, col=1)
        _keep_in_sight(figure, mine, panel)
    figure.update_xaxes(title_text="clients", row=len(metrics), col=1)
    figure.update_layout(hovermode="x unified")
    return finish(figure, 110 + 250 * len(metrics))


def spans_zero(row: Row) -> bool:
    """Whether an effect could as well be none."""
    low, high = row["low"], row["high"]
    return low is not None and high is not None and low <= 0 <= high


def _others(row: Row) -> str:
    column = next((name for name in row if name.startswith("other")), None)
    others = levels_of(row, column) if column else {}
    return ", ".join(f"{name} {number(level) if isinstance(level, float) else level}" for name, level in others.items())


def _axis(figure: go.Figure, levels: list[Any]) -> Any:
    """Numbers as numbers, words as words; ticks where there are levels."""
    numbers = numeric(levels)
    if numbers is None:
        figure.update_xaxes(type="category")
        return lambda level: plain(level, 24)
    places = sorted(set(numbers))
    log = places[0] > 0 and places[-1] / places[0] > LOG_FROM
    figure.update_xaxes(
        type="log" if log else "linear",
        tickvals=places,
        ticktext=[number(int(p) if p == int(p) else p) for p in places],
    )
    return float


def _add_curve(
    figure: go.Figure, rows: list[Row], metric: str, name: str, style: Look, x_of: Any, *, row: int, legend: bool
) -> None:
    mine = [entry for entry in rows if entry["metric"] == metric and entry["mean"] is not None]
    if not mine:
        return
    if numeric(entry["level"] for entry in mine) is not None:
        mine.sort(key=lambda entry: float(entry["level"]))
    means = [entry["mean"] for entry in mine]
    figure.add_trace(
        go.Scatter(
            x=[x_of(entry["level"]) for entry in mine], y=[short(mean) for mean in means], name=plain(name),
            legendgroup=name, showlegend=legend, mode="lines+markers",
            line={"color": style.colour, "dash": style.dash, "width": 2},
            marker={"color": style.colour, "symbol": style.symbol, "size": 8},
            error_y=error_bars(means, [e["low"] for e in mine], [e["high"] for e in mine], style.colour),
            hovertemplate="%{y:,.4~g}",
        ),
        row=row, col=1,
    )  # fmt: skip


def _add_model(figure: go.Figure, model: str, rows: list[Row], panel: int, told: set[str]) -> None:
    name, style = MODELS.get(model, (plain(model), Look(GREY, "dash")))
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
            x=x, y=[short(row["predicted"]) for row in rows], name=name, legendgroup=name, showlegend=name not in told,
            mode="lines+markers", line={"color": style.colour, "dash": style.dash, "width": 1.5},
            marker={"color": style.colour, "symbol": style.symbol + "-open", "size": 7}, hovertemplate="%{y:,.4~g}",
        ),
        row=panel, col=1,
    )  # fmt: skip
    told.add(name)


def _keep_in_sight(figure: go.Figure, rows: list[Row], panel: int) -> None:
    """A bound may shoot far above all measurements; it must not flatten them."""
    measured = [row["measured"] for row in rows if row["measured"] is not None]
    everything = [row[c] for row in rows for c in ("predicted", "high") if row[c] is not None]
    if measured and everything and max(everything) > 3 * max(measured):
        figure.update_yaxes(range=[0, 2 * max(measured)], row=panel, col=1)
