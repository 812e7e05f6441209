"""Distribution of response times: logarithmic bins, cumulative shares, and shares below limits."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from stafette.report.figures.style import MUTED, LineStyle, finish, line_style, log_ticks, number, plain, short, start
from stafette.report.figures.table_rows import Row, Tables, by_series, select, series_name, tier_of
from stafette.runs.outcomes import ALL

MAX_SERIES = 6
GUIDES = (50, 95, 99)
ALL_ANSWERED = 0.99995


def distribution(tables: Tables, run: str) -> go.Figure | None:
    """Share of requests per bin on a logarithmic axis, and below it the share up to each bin's end."""
    rows = select(tables, "distribution", run=run)
    groups = by_series(row for row in rows if row["count"] and row["high_ms"] is not None)
    groups = {series: group for series, group in groups.items() if series[0] != ALL}
    groups = dict(list(groups.items())[:MAX_SERIES])
    if not groups:
        return None
    drawn = [row for group in groups.values() for row in group]
    axis_start, axis_end = _axis_range(drawn)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.55, 0.45])
    for (operation, outcome), group in groups.items():
        bins = [_Bin(max(row["low_ms"], axis_start), row["high_ms"], row["count"]) for row in group]
        bins.sort(key=lambda entry: entry.low)
        name, style = plain(series_name(operation, outcome)), line_style(operation, outcome)
        figure.add_trace(_line(*_bin_shares(bins), name, style, "hv", legend=True), row=1, col=1)
        figure.add_trace(_line(*_cumulative_shares(bins), name, style, "linear", legend=False), row=2, col=1)
    for guide in GUIDES:
        figure.add_hline(
            y=guide, line={"color": MUTED, "width": 1, "dash": "dot"}, row=2, col=1, opacity=0.7,
        )  # fmt: skip
    figure.update_xaxes(**log_ticks(axis_start, axis_end), range=[math.log10(axis_start), math.log10(axis_end)])
    figure.update_xaxes(title_text="response time (ms, log)", row=2, col=1)
    figure.update_yaxes(title_text="% of requests per bin", row=1, col=1)
    figure.update_yaxes(title_text="% answered within", tickvals=[0, 25, 50, 75, 95], range=[0, 103], row=2, col=1)
    figure.update_layout(hovermode="x unified")
    return finish(figure, 520)


def share_below_limits(tables: Tables, run: str) -> go.Figure | None:
    """Share of requests that were answered within each limit."""
    tier = tier_of(tables, "shares", run)
    rows = select(tables, "shares", run=run, tier=tier) if tier else []
    groups = dict(list(by_series(rows).items())[: MAX_SERIES + 1])
    if not groups:
        return None
    figure = start()
    limits = _informative_limits(rows)
    for (operation, outcome), group in groups.items():
        share_by_limit = {row["limit_ms"]: row["share"] for row in group}
        style = line_style(operation, outcome)
        figure.add_trace(
            go.Scatter(
                x=[f"{number(limit)} ms" for limit in limits],
                y=[None if (share := share_by_limit.get(limit)) is None else short(100 * share) for limit in limits],
                name=plain(series_name(operation, outcome)), mode="lines+markers",
                line={"color": style.colour, "dash": style.dash, "width": style.width},
                marker={"symbol": style.symbol, "size": 8, "color": style.colour},
                hovertemplate="%{y:.4~g} %",
            )
        )  # fmt: skip
    figure.update_xaxes(title_text="limit of the response time", type="category")
    figure.update_yaxes(title_text="% answered within", range=[0, 103], tickvals=[0, 25, 50, 75, 90, 100])
    figure.update_layout(hovermode="x unified", showlegend=True)
    return finish(figure, 340)


def _informative_limits(rows: list[Row]) -> list[float]:
    """The limits up to the first within which all requests were answered; higher limits add nothing."""
    limits = sorted({row["limit_ms"] for row in rows})
    sufficient = [
        limit for limit in limits if all(row["share"] > ALL_ANSWERED for row in rows if row["limit_ms"] == limit)
    ]
    return [limit for limit in limits if not sufficient or limit <= sufficient[0]]


@dataclass(frozen=True)
class _Bin:
    """Requests that took from `low` to less than `high` milliseconds."""

    low: float
    high: float
    count: int


def _axis_range(rows: list[Row]) -> tuple[float, float]:
    """From the lowest to the highest edge; an edge at 0, which a logarithmic axis does not have, is at its start."""
    edges = [edge for row in rows for edge in (row["low_ms"], row["high_ms"]) if edge > 0]
    lowest = min(edges)
    from_zero = any(row["low_ms"] <= 0 for row in rows)
    return (lowest / 2 if from_zero else lowest), max(edges)


def _bin_shares(bins: list[_Bin]) -> tuple[list[float], list[float | None]]:
    """Steps: the share of each bin from its lower edge on, and 0 from its upper edge to the next bin."""
    total = sum(entry.count for entry in bins)
    x: list[float] = []
    y: list[float | None] = []
    for entry, following in itertools.zip_longest(bins, bins[1:]):
        x.append(entry.low)
        y.append(short(100 * entry.count / total))
        if following is None or following.low > entry.high:
            x.append(entry.high)
            y.append(0.0)
    return x, y


def _cumulative_shares(bins: list[_Bin]) -> tuple[list[float], list[float | None]]:
    """The share of requests below each edge."""
    total = sum(entry.count for entry in bins)
    x, y, below = [bins[0].low], [0.0], 0
    for entry in bins:
        if entry.low > x[-1]:
            x.append(entry.low)
            y.append(100 * below / total)
        below += entry.count
        x.append(entry.high)
        y.append(100 * below / total)
    return x, [short(share) for share in y]


def _line(x: list[float], y: list[float | None], name: str, style: LineStyle, shape: str, legend: bool) -> go.Scatter:
    return go.Scatter(
        x=x, y=y, name=name, legendgroup=name, showlegend=legend, mode="lines",
        line={"color": style.colour, "dash": style.dash, "width": style.width, "shape": shape},
        hovertemplate="%{y:.3~g} %",
    )  # fmt: skip
