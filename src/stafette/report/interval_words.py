"""Intervals in words: their kind, their level, and the number of values behind them; or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stafette.report.figures.style import number, percent
from stafette.report.figures.table_rows import WHOLE, Row, Tables, select


def level_of(tables: Tables) -> float | None:
    """The confidence level of an analysis; None if no row of its summary has one."""
    return next((row["interval_level"] for row in select(tables, "summary") if row["interval_level"] is not None), None)


def has_interval(row: Mapping[str, Any]) -> bool:
    """Whether a row of the summary has intervals. Analyses of earlier versions have bounds of no kind."""
    return row["interval_kind"] is not None


def describe(row: Mapping[str, Any]) -> str:
    """The intervals of a row of the summary. A reason beside an interval is about the other one, and names it."""
    if not has_interval(row):
        return f"none: {row['interval_reason']}" if row["interval_reason"] else "none"
    missing = f"; none of {row['interval_reason']}" if row["interval_reason"] else ""
    return f"{_kind(row)}{missing}"


def _kind(row: Mapping[str, Any]) -> str:
    count = "" if row["interval_n"] is None else f"n = {number(row['interval_n'])}"
    return ", ".join(text for text in (percent(row["interval_level"]), row["interval_kind"], count) if text)


def bounds(row: Mapping[str, Any], low: str, high: str) -> str:
    """One interval of a row of the summary with its bounds, in brackets."""
    if has_interval(row) and row[low] is not None and row[high] is not None:
        return f" (interval {number(row[low])} to {number(row[high])}: {_kind(row)})"
    return f" (no interval: {row['interval_reason']})" if row["interval_reason"] else ""


def repetitions(tables: Tables, experiment: str) -> str:
    """Number of repetitions of an experiment's points."""
    counts = {row["repetitions"] for row in select(tables, "points", experiment=experiment, **WHOLE)}
    if not counts:
        return "repetitions"
    if len(counts) > 1:
        return f"{min(counts):,} to {max(counts):,} repetitions"
    return f"{max(counts):,} repetitions"


def over_repetitions(tables: Tables, experiment: str, level: float | None) -> str:
    """The intervals of means over repetitions."""
    return f"{percent(level)} confidence intervals (Student t over {repetitions(tables, experiment)})".strip()


def error_bars(tables: Tables, experiment: str, rows: Sequence[Row], level: float | None) -> str:
    """What the error bars of rows of an experiment are; rows without a bar have a single run."""
    bars = [row["low"] is not None and row["high"] is not None for row in rows]
    if not any(bars):
        return "one run each, so no intervals"
    single = "" if all(bars) else "; points without a bar have one run"
    return f"bars: {over_repetitions(tables, experiment, level)}{single}"
