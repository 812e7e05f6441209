"""A run over time: throughput, response time, phases, queue lengths and processor time, second by second.

Warm-up and cool-down are shaded; a dotted line is where MSER-5 estimates the end of the warm-up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from stafette.report.figures.style import (
    GREY,
    INK,
    PAPER,
    SEQUENCE,
    SHADE,
    STACKED_PHASES,
    LineStyle,
    Phase,
    finish,
    line_style,
    log_ticks,
    plain,
    short,
    start,
)
from stafette.report.figures.table_rows import (
    NO_STAGES,
    Row,
    Stages,
    Tables,
    by_series,
    distinct,
    select,
    series_name,
    tier_of,
)
from stafette.runs.outcomes import ALL

Item = TypeVar("Item")

MAX_POINTS = 600
"""More windows than this on one line are merged: nobody sees more, and the file stays small."""
MAX_PANELS = 6
MAX_LINES = 8
LONG_S = 900.0
"""Longer runs have an axis in minutes."""
LOG_FROM = 40.0
"""Response times that differ by more than this factor are drawn on a logarithmic axis."""
PANEL = 150
BAND_LOOKS = (("50", "p50 to p95"), ("28", "p95 to p99"))


def throughput_over_time(
    tables: Tables, run: str, stages: Stages = NO_STAGES, points: int = MAX_POINTS
) -> go.Figure | None:
    """Answers per second of each operation, window by window."""
    groups = _windows(tables, run)
    if not groups:
        return None
    unit = _Time(row["second"] + row["seconds"] for rows in groups.values() for row in rows)
    figure = start()
    for (operation, outcome), rows in groups.items():
        drawn = [_sum_windows(group) for group in _chunks(rows, points)]
        figure.add_trace(
            _line(
                [unit.of(row["second"] + row["seconds"] / 2) for row in drawn],
                [short(row["throughput_per_s"]) for row in drawn],
                series_name(operation, outcome),
                line_style(operation, outcome),
                "%{y:,.4~g} per second",
            )
        )
    _show_stages(figure, stages, unit, rows=1)
    figure.update_yaxes(title_text="answers per second")
    figure.update_layout(hovermode="x unified")
    return finish(figure, 360)


def response_time_over_time(
    tables: Tables, run: str, stages: Stages = NO_STAGES, points: int = MAX_POINTS
) -> go.Figure | None:
    """Median with bands up to the 95th and 99th percentile, a panel per operation.

    Percentiles are never averaged: of windows that are merged, the one with the highest p99 is drawn.
    """
    groups = {series: rows for series, rows in _windows(tables, run).items() if series[0] != ALL}
    groups = dict(list(groups.items())[:MAX_PANELS])
    if not groups:
        return None
    unit = _Time(row["second"] + row["seconds"] for rows in groups.values() for row in rows)
    figure = make_subplots(rows=len(groups), cols=1, shared_xaxes=True, vertical_spacing=0.16 / max(2, len(groups)))
    for panel, ((operation, outcome), rows) in enumerate(groups.items(), start=1):
        drawn = [max(group, key=lambda row: row["p99_ms"] or 0) for group in _chunks(rows, points)]
        _add_bands(figure, drawn, unit, line_style(operation, outcome), panel)
        name = plain(series_name(operation, outcome), 18)
        low, high = _range(drawn)
        log = low > 0 and high / low > LOG_FROM
        figure.update_yaxes(title_text=f"{name}<br>ms{', log' if log else ''}", row=panel, col=1)
        if log:
            figure.update_yaxes(**log_ticks(low, high), row=panel, col=1)
    _add_band_legend(figure)
    _show_stages(figure, stages, unit, rows=len(groups))
    figure.update_layout(hovermode="x unified")
    return finish(figure, 110 + PANEL * len(groups))


def phases_over_time(
    tables: Tables, run: str, stages: Stages = NO_STAGES, points: int = MAX_POINTS
) -> go.Figure | None:
    """Mean time of a request in each phase, window by window; the phases are stacked up to the response time."""
    groups = _phase_windows(tables, run)
    if not groups:
        return None
    lengths = {row["second"]: row["seconds"] for row in select(tables, "windows", run=run)}
    middles = {second: second + lengths.get(second, 0.0) / 2 for second in groups}
    unit = _Time(second + lengths.get(second, 0.0) for second in groups)
    chunks = _chunks(list(groups), points)
    figure = start()
    for phase in STACKED_PHASES:
        if not any(phase.name in rows for rows in groups.values()):
            continue
        x = [unit.of(sum(middles[second] for second in chunk) / len(chunk)) for chunk in chunks]
        means = [_mean_per_request([groups[second] for second in chunk], phase.name) for chunk in chunks]
        # The clocks' error can make the rest negative; an area cannot be.
        figure.add_trace(_area(x, [short(max(0.0, mean)) for mean in means], phase))
    _show_stages(figure, stages, unit, rows=1)
    figure.update_yaxes(title_text="mean time per request (ms)")
    figure.update_layout(hovermode="x unified", showlegend=True)
    return finish(figure, 420)


def queue_lengths(tables: Tables, run: str, stages: Stages = NO_STAGES, points: int = MAX_POINTS) -> go.Figure | None:
    """Messages waiting in each queue; the longest ones by name, the others as one line."""
    figure = _samples(tables, "queues", "queue", "messages", run, stages, points, "%{y:,.0f} messages")
    if figure is not None:
        figure.update_yaxes(title_text="messages waiting")
    return figure


def processor_time(tables: Tables, run: str, stages: Stages = NO_STAGES, points: int = MAX_POINTS) -> go.Figure | None:
    """Processor time that each process used, in cores."""
    figure = _samples(tables, "costs", "process", "cpu_share", run, stages, points, "%{y:.2f} cores")
    if figure is not None:
        figure.update_yaxes(title_text="processor time (cores)")
    return figure


def _windows(tables: Tables, run: str) -> dict[tuple[str, str], list[Row]]:
    tier = tier_of(tables, "windows", run)
    rows = select(tables, "windows", run=run, tier=tier) if tier else []
    groups = by_series(rows)
    if len(groups) == 2 and any(operation == ALL for operation, _ in groups):  # both would be the same line
        groups = {series: rows for series, rows in groups.items() if series[0] != ALL}
    return {series: sorted(rows, key=lambda row: row["second"]) for series, rows in groups.items()}


class _Time:
    """Seconds on the axis, or minutes when the run is long."""

    def __init__(self, seconds: Iterable[float]) -> None:
        self.last = max(seconds, default=0.0)
        self._length = 60.0 if self.last > LONG_S else 1.0
        self.title = f"time since the load began ({'min' if self._length > 1 else 's'})"

    def of(self, seconds: float) -> float:
        return round(seconds / self._length, 3)


def _phase_windows(tables: Tables, run: str) -> dict[float, dict[str, Row]]:
    """Rows of each window in the order of time, by phase; without those of windows without requests."""
    groups: dict[float, dict[str, Row]] = {}
    for row in sorted(select(tables, "phase_windows", run=run), key=lambda row: row["second"]):
        if row["count"] and row["mean_ms"] is not None:
            groups.setdefault(row["second"], {})[row["phase"]] = row
    return groups


def _mean_per_request(windows: list[dict[str, Row]], phase: str) -> float:
    """Time in a phase divided by the number of requests, of which not all need to pass it."""
    total = sum(rows[phase]["mean_ms"] * rows[phase]["count"] for rows in windows if phase in rows)
    requests: int = sum(max(row["count"] for row in rows.values()) for rows in windows)
    return float(total / requests)


def _area(x: list[float], y: list[float | None], phase: Phase) -> go.Scatter:
    return go.Scatter(
        x=x, y=y, name=phase.label, mode="lines", stackgroup="phases", hovertemplate="%{y:,.3~g} ms",
        line={"color": phase.colour, "width": 0.5}, fillcolor=phase.colour,
        fillpattern={"shape": phase.pattern, "size": 6, "solidity": 0.25, "fgcolor": PAPER, "bgcolor": phase.colour},
    )  # fmt: skip


def _chunks(rows: list[Item], points: int) -> list[list[Item]]:
    size = -(-len(rows) // points)
    return [rows[first : first + size] for first in range(0, len(rows), max(1, size))]


def _sum_windows(rows: list[Row]) -> Row:
    """Merge neighbouring windows: counts and lengths add up, so the throughput is exact."""
    seconds = sum(row["seconds"] for row in rows)
    rate = sum(row["throughput_per_s"] * row["seconds"] for row in rows) / seconds if seconds else 0.0
    return {"second": rows[0]["second"], "seconds": seconds, "throughput_per_s": rate}


def _range(rows: list[Row]) -> tuple[float, float]:
    """The lowest median and the highest p99."""
    lows = [row["p50_ms"] for row in rows if row["p50_ms"]]
    highs = [row["p99_ms"] for row in rows if row["p99_ms"]]
    return min(lows, default=0.0), max(highs, default=0.0)


def _line(x: list[Any], y: list[Any], name: str, style: LineStyle, hover: str) -> go.Scatter:
    # Lines hide a single point; a marker shows it.
    return go.Scatter(
        x=x, y=y, name=plain(name), mode="lines" if len(x) > 1 else "markers",
        line={"color": style.colour, "dash": style.dash, "width": style.width},
        marker={"color": style.colour, "symbol": style.symbol, "size": 8},
        hovertemplate=hover,
    )  # fmt: skip


def _add_bands(figure: go.Figure, rows: list[Row], unit: _Time, style: LineStyle, panel: int) -> None:
    x = [unit.of(row["second"] + row["seconds"] / 2) for row in rows]
    line = {"color": style.colour, "width": 2}
    columns = [[short(row[name]) for row in rows] for name in ("p50_ms", "p95_ms", "p99_ms")]
    names = ("median", "p95", "p99")
    fills = (None, *(style.colour + opacity for opacity, _ in BAND_LOOKS))
    for values, name, fill in zip(columns, names, fills, strict=True):
        figure.add_trace(
            go.Scatter(
                x=x, y=values, name=name, showlegend=False, hovertemplate="%{y:,.3~g} ms",
                mode="lines" if len(x) > 1 else "markers",
                line=line if fill is None else {"color": style.colour, "width": 0.5},
                marker={"color": style.colour}, fill=None if fill is None else "tonexty", fillcolor=fill,
            ),
            row=panel, col=1,
        )  # fmt: skip


def _add_band_legend(figure: go.Figure) -> None:
    """Add entries for the bands, in grey because every panel has its own colour."""
    figure.add_trace(_entry("median", line={"color": GREY, "width": 2}), row=1, col=1)
    for opacity, name in BAND_LOOKS:
        marker = {"color": GREY + opacity, "symbol": "square", "size": 13, "line": {"color": GREY, "width": 0.5}}
        figure.add_trace(_entry(name, marker=marker), row=1, col=1)


def _entry(name: str, **style: Any) -> go.Scatter:
    """A legend entry without a line of its own."""
    mode = "lines" if "line" in style else "markers"
    return go.Scatter(x=[None], y=[None], name=name, mode=mode, hoverinfo="skip", **style)


def _show_stages(figure: go.Figure, stages: Stages, unit: _Time, rows: int) -> None:
    """Shade warm-up and cool-down, and mark MSER-5's estimate."""
    last = max(unit.last, stages.load_s or 0.0)
    excluded = []
    if stages.window_from_s:
        excluded.append((0.0, stages.window_from_s))
    if stages.window_to_s is not None and stages.window_to_s < last:
        excluded.append((stages.window_to_s, last))
    shapes = [
        _across(
            panel, unit.of(begin), unit.of(end), type="rect", fillcolor=GREY + SHADE, line={"width": 0}, layer="below"
        )
        for panel in range(1, rows + 1)
        for begin, end in excluded
    ]
    if excluded:
        square = {"color": GREY + "44", "symbol": "square", "size": 13}
        figure.add_trace(_entry("warm-up and cool-down, not measured", marker=square))
    if stages.steady_from_s is not None:
        line = {"color": INK, "dash": "dot", "width": 1.5}
        x = unit.of(stages.steady_from_s)
        shapes += [_across(panel, x, x, type="line", line=line) for panel in range(1, rows + 1)]
        figure.add_trace(_entry(f"MSER-5: steady from {stages.steady_from_s:.3g} s", line=line))
    figure.layout.shapes = shapes
    figure.update_xaxes(range=[0, unit.of(last)])
    figure.update_xaxes(title_text=unit.title, **({"row": rows, "col": 1} if rows > 1 else {}))


def _across(panel: int, start: float, end: float, **style: Any) -> dict[str, Any]:
    """A shape over the whole height of a panel."""
    axis = "" if panel == 1 else str(panel)
    return {"xref": f"x{axis}", "yref": f"y{axis} domain", "x0": start, "x1": end, "y0": 0, "y1": 1, **style}


def _samples(
    tables: Tables, table: str, key: str, value: str, run: str, stages: Stages, points: int, hover: str
) -> go.Figure | None:
    rows = sorted(select(tables, table, run=run), key=lambda row: row["second"])
    rows = [row for row in rows if row[value] is not None]
    if not rows:
        return None
    unit = _Time(row["second"] for row in rows)
    figure = start()
    for (name, line_rows), style in zip(_longest(rows, key, value).items(), SEQUENCE, strict=False):
        peaks = [max(group, key=lambda row: row[value]) for group in _chunks(line_rows, points)]
        x, y = [unit.of(row["second"]) for row in peaks], [short(row[value]) for row in peaks]
        figure.add_trace(_line(x, y, name, style, hover))
    _show_stages(figure, stages, unit, rows=1)
    figure.update_layout(hovermode="x unified", showlegend=True)
    return finish(figure, 340)


def _longest(rows: list[Row], key: str, value: str) -> dict[str, list[Row]]:
    """The lines with the highest values; the others are summed if there are too many for one figure."""
    peaks: dict[str, float] = {}
    for row in rows:
        peaks[row[key]] = max(peaks.get(row[key], 0.0), row[value])
    names = sorted(peaks, key=lambda name: (-peaks[name], name))
    top_names = names if len(names) <= MAX_LINES else names[: MAX_LINES - 1]
    lines = {str(name): [row for row in rows if row[key] == name] for name in sorted(top_names)}
    rest = [row for row in rows if row[key] not in top_names]
    if rest:
        sums: dict[float, float] = dict.fromkeys(distinct(rest, "second"), 0.0)
        for row in rest:
            sums[row["second"]] += row[value]
        name = f"the other {len(names) - len(top_names):,} together"
        lines[name] = [{"second": second, value: total} for second, total in sums.items()]
    return lines
