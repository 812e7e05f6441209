"""The sign table of a 2k design: the points with the signs of all effects, and the effects that follow from them."""

from __future__ import annotations

import itertools
import math
import string
from typing import Any

from stafette.report.figures.style import number
from stafette.report.figures.table_rows import WHOLE, Tables, levels_of, select
from stafette.report.grids import Cell, Grid, build_grid

MAX_SIGN_FACTORS = 4
"""Sixteen columns fit on a page."""


def sign_table(tables: Tables, experiment: str, metric: str) -> Grid | None:
    """Every point as a row of signs with its response; the last row has the effects: column sums divided by 2k."""
    points = select(tables, "points", experiment=experiment, metric=metric, **WHOLE)
    levels = [levels_of(row) for row in points]
    factors = [name for name in (levels[0] if levels else {}) if len({str(level.get(name)) for level in levels}) == 2]
    if not factors or len(points) != 2 ** len(factors):
        return None
    ends = {name: sorted({level[name] for level in levels}, key=_order) for name in factors}
    letters = dict(zip(factors, string.ascii_uppercase.replace("I", ""), strict=False))
    widest = len(factors) if len(factors) <= MAX_SIGN_FACTORS else 1
    columns = [c for size in range(widest + 1) for c in itertools.combinations(factors, size)]
    signs = [{name: -1 if level[name] == ends[name][0] else 1 for name in factors} for level in levels]
    order = sorted(range(len(points)), key=lambda index: [signs[index][name] for name in reversed(factors)])
    body, sums = [], dict.fromkeys(columns, 0.0)
    for count, index in enumerate(order, start=1):
        products = {column: math.prod(signs[index][name] for name in column) for column in columns}
        for column, product in products.items():
            sums[column] += product * points[index]["mean"]
        cells = [Cell("+1" if product > 0 else "−1", True) for product in products.values()]
        body.append([Cell(str(count)), *cells, Cell(number(points[index]["mean"]), True)])
    body.append([Cell("effect"), *(Cell(number(sums[column] / len(points)), True) for column in columns), Cell("–")])
    heads = ["point", *("".join(letters[name] for name in column) or "I" for column in columns), "response"]
    legend = "; ".join(f"{letters[name]} is {name}: −1 at {ends[name][0]}, +1 at {ends[name][1]}" for name in factors)
    return build_grid(heads, body, f"{legend}. Effect: the sum of sign × response, divided by {len(points)}.")


def _order(level: Any) -> tuple[int, float, str]:
    is_number = isinstance(level, int | float)
    return (0, float(level), "") if is_number else (1, 0.0, str(level))
