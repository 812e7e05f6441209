"""Distribution of response times: logarithmic bins, cumulative shares, and shares below limits."""

from __future__ import annotations

import itertools
import math

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
    tier = tier_of(tables, "distribution", run) if rows and "tier" in rows[0] else None
    groups = by_series(row for row in rows if tier is None or row["tier"] == tier)
    groups = {series: group for series, group in groups.items() if series[0] != ALL}
    groups = dict(list(groups.items())[:MAX_SERIES])
    if not groups:
        return None
    ratio = _ratio(rows)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.55, 0.45])
    for (operation, outcome), group in groups.items():
        edges, counts = _fill_bins(group, ratio)
        total = sum(counts)
        shares = [short(100 * count / total) for count in counts]
        below = [0.0]
        for count in counts:
            below.append(below[-1] + count)
        name, style = plain(series_name(operation, outcome)), line_style(operation, outcome)
        figure.add_trace(_steps(edges, [*shares, 0.0], name, style, "hv", legend=True), row=1, col=1)
        up_to = [short(100 * count / total) for count in below]
        figure.add_trace(_steps(edges, up_to, name, style, "linear", legend=False), row=2, col=1)
    for guide in GUIDES:
        figure.add_hline(
            y=guide, line={"color": MUTED, "width": 1, "dash": "dot"}, row=2, col=1, opacity=0.7,
        )  # fmt: skip
    lows = [row["bin_ms"] for row in rows if row["bin_ms"] > 0]
    figure.update_xaxes(**log_ticks(min(lows, default=0.001), max(lows, default=1.0) * ratio))
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


def _ratio(rows: list[Row]) -> float:
    """The ratio of neighbouring bins' bounds; the smallest, as bins may be missing."""
    bounds = sorted({row["bin_ms"] for row in rows if row["bin_ms"] > 0})
    ratios = [high / low for low, high in itertools.pairwise(bounds)]
    return max(min(ratios, default=2.0), 1.01)


def _fill_bins(rows: list[Row], ratio: float) -> tuple[list[float | None], list[float]]:
    """Edges and counts of all bins from the first to the last, including empty ones."""
    counts = {row["bin_ms"]: row["count"] for row in rows if row["bin_ms"] > 0}
    zero = sum(row["count"] for row in rows if row["bin_ms"] <= 0)
    first = min(counts, default=0.001)
    count_by_index: dict[int, float] = {}
    for bound, count in counts.items():
        index = round(math.log(bound / first) / math.log(ratio))
        count_by_index[index] = count_by_index.get(index, 0) + count
    if zero:
        count_by_index[-1] = zero
    indexes = range(min(count_by_index), max(count_by_index) + 1)
    edges = [short(first * ratio**index) for index in [*indexes, indexes[-1] + 1]]
    return edges, [count_by_index.get(index, 0) for index in indexes]


def _steps(
    x: list[float | None], y: list[float | None], name: str, style: LineStyle, shape: str, legend: bool
) -> go.Scatter:
    return go.Scatter(
        x=x, y=y, name=name, legendgroup=name, showlegend=legend, mode="lines",
        line={"color": style.colour, "dash": style.dash, "width": style.width, "shape": shape},
        hovertemplate="%{y:.3~g} %",
    )  # fmt: skip
