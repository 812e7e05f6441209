"""The numbers of the figures as tables of text: rounded, with units in the heads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stafette.report.figures.style import number
from stafette.report.figures.table_rows import Row

MAX_ROWS = 120
"""More rows are not readable on a page; the CSV has all."""

HEADS = {
    "throughput_per_s": "answers/s", "second": "from s", "seconds": "length s", "cpu_share": "cores",
    "resident_bytes": "memory bytes", "limit_ms": "limit ms", "share": "share", "low_ms": "bin from ms",
    "high_ms": "to below ms", "stddev": "standard deviation", "stddev_ms": "standard deviation ms",
    "write_ms": "write ms (in network and rest)",
    "unexplained_ms": "network and rest ms", "variation_percent": "variation %", "p_value": "p", "ok": "holds",
    "low": "interval from", "high": "to",
}  # fmt: skip
HIDDEN = frozenset({"run", "experiment"})


@dataclass(frozen=True)
class Cell:
    """A text; numbers are right-aligned."""

    text: str
    number: bool = False
    below: str = ""
    """A second, smaller line: an interval."""


@dataclass(frozen=True)
class Grid:
    """A table for the page."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[bool]
    note: str = ""


def grid(rows: Sequence[Row], csv: str, columns: Sequence[str] | None = None, limit: int = MAX_ROWS) -> Grid:
    """Rows of a result table; columns without any value are left out."""
    names = [n for n in (columns or (rows[0] if rows else ())) if n not in HIDDEN or columns]
    names = [name for name in names if any(row.get(name) is not None for row in rows)]
    visible = rows[:limit]
    body = [[cell(row.get(name)) for name in names] for row in visible]
    numeric = [all(cells[i].number or cells[i].text == "–" for cells in body) for i in range(len(names))]
    note = f"The same, unrounded: csv/{csv}.csv"
    if len(rows) > len(visible):
        note = f"The first {len(visible)} of {len(rows):,} rows. All, unrounded: csv/{csv}.csv"
    return Grid([head(name) for name in names], body, numeric, note)


def build_grid(heads: Sequence[str], body: Sequence[Sequence[Cell]], note: str = "") -> Grid:
    """A table from cells; finds the columns of numbers."""
    numeric = [bool(body) and all(row[i].number or row[i].text == "–" for row in body) for i in range(len(heads))]
    return Grid(heads, body, numeric, note)


def head(name: str) -> str:
    """The head of a column."""
    if name in HEADS:
        return HEADS[name]
    words = name.removesuffix("_ms").removesuffix("_s")
    unit = name[len(words) + 1 :]
    words = words.replace("p2_5", "p2.5").replace("p97_5", "p97.5").replace("p99_9", "p99.9").replace("_", " ")
    return f"{words} {unit}".strip()


def cell(value: Any) -> Cell:
    """A value as text."""
    if value is None:
        return Cell("–")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int | float):
        return Cell(number(value), True)
    if isinstance(value, Mapping | list | tuple):
        return Cell(json.dumps(value, ensure_ascii=False, default=str))
    return Cell(str(value))


def with_interval(value: float | None, low: float | None, high: float | None) -> Cell:
    """A value with its interval below it."""
    if low is None or high is None or low == high:
        return Cell(number(value), True)
    return Cell(number(value), True, f"{number(low)} to {number(high)}")


def pairs(values: Mapping[str, Any], heads: tuple[str, str] = ("", "")) -> Grid:
    """Names and values in two columns; nested names are dotted."""
    flat = list(flatten(values))
    return Grid(heads, [[Cell(name), cell(value)] for name, value in flat], [False, False])


def flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested settings as a list of dotted names and values."""
    flat: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat += flatten(value, f"{prefix}{name}.")
        else:
            flat.append((f"{prefix}{name}", value))
    return flat
