"""Where the time goes: the response time of each operation, split into the phases of a request."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from stafette.report.figures.style import PAPER, STACKED_PHASES, Phase, finish, name_rows, number, plain, short, start
from stafette.report.figures.table_rows import Row, RunMetadata, Tables, by_series, select, series_name

MAX_BARS = 24


def part(row: Row, phase: Phase) -> float | None:
    """Mean duration of a phase; None if it was not measured."""
    value = row.get(phase.column)
    return None if value is None else float(value)


def breakdown(tables: Tables, run: str) -> go.Figure | None:
    """One bar per operation and outcome of a run."""
    groups = by_series(select(tables, "breakdown", run=run))
    rows = {series_name(*series): group[0] for series, group in groups.items()}
    return _bars(rows, "mean response time (ms)")


def breakdown_by_point(tables: Tables, runs: Sequence[RunMetadata], operation: str, outcome: str) -> go.Figure | None:
    """One bar per point of an experiment, for one operation."""
    labels: dict[str, list[Row]] = {}
    for run in runs:
        labels.setdefault(run.label or run.run, []).extend(
            select(tables, "breakdown", run=run.run, operation=operation, outcome=outcome)
        )
    rows = {label: _mean(group) for label, group in labels.items() if group}
    title = f"mean response time of {plain(series_name(operation, outcome))} (ms)"
    return _bars(rows, title) if len(rows) > 1 else None


def _mean(rows: list[Row]) -> Row:
    """The mean over repetitions, each with the same weight."""
    means: Row = {}
    for column in (phase.column for phase in STACKED_PHASES):
        values = [row[column] for row in rows if row[column] is not None]
        means[column] = sum(values) / len(values) if values else None
    return means


def _bars(rows: dict[str, Row], title: str) -> go.Figure | None:
    rows = dict(list(rows.items())[:MAX_BARS])
    if not rows:
        return None
    positions = list(range(len(rows)))
    totals = [0.0] * len(rows)
    figure = start()
    for phase in STACKED_PHASES:
        lengths = [part(row, phase) for row in rows.values()]
        if not any(lengths):
            continue
        # The clocks' error can make the rest negative; a bar cannot be.
        bar_lengths = [max(0.0, length or 0.0) for length in lengths]
        totals = [total + length for total, length in zip(totals, bar_lengths, strict=True)]
        figure.add_trace(
            go.Bar(
                y=positions, x=[short(length) for length in bar_lengths], name=phase.label, orientation="h",
                marker={
                    "color": phase.colour, "line": {"color": PAPER, "width": 1},
                    "pattern": {"shape": phase.pattern, "size": 5, "solidity": 0.3, "fgcolor": PAPER,
                                "fillmode": "overlay"},
                },
                hovertemplate="%{x:,.3~g} ms",
            )
        )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            y=positions, x=[short(total) for total in totals], mode="text",
            text=[f" {number(total)}" for total in totals],
            textposition="middle right", showlegend=False, hoverinfo="skip", cliponaxis=False,
        )
    )  # fmt: skip
    figure.update_layout(barmode="stack", legend_traceorder="normal", hovermode="y unified")
    figure.update_xaxes(title_text=title, range=[0, max(totals) * 1.08 or 1], showgrid=True)
    name_rows(figure, list(rows))
    return finish(figure, 170 + 38 * len(rows))
