"""Compares the tables of Spark and DuckDB: whole numbers to the last digit, others to 12 digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RELATIVE = 1e-12
KEYS = {
    "summary": ("run", "tier", "operation", "outcome"),
    "windows": ("run", "tier", "operation", "outcome", "second"),
    "breakdown": ("run", "operation", "outcome"),
    "joins": ("run",),
    "reject_reasons": ("reason",),
}
"""The tables, and the columns that identify a row of each."""


def differences(ours: Mapping[str, pa.Table], theirs: Mapping[str, pa.Table]) -> Iterator[str]:
    """Descriptions of all differences; only the columns of `theirs` are compared."""
    for name, keys in KEYS.items():
        table = ours[name]
        if name == "windows":  # ours has empty windows of successes, too
            table = table.filter(pc.or_(pc.greater(table["count"], 0), pc.greater(table["throughput_per_s"], 0)))
        yield from (f"{name}: {difference}" for difference in _table_differences(table, theirs[name], keys))


def _table_differences(ours: pa.Table, theirs: pa.Table, keys: tuple[str, ...]) -> Iterator[str]:
    if ours.num_rows != theirs.num_rows:
        yield f"{ours.num_rows} rows from Spark, {theirs.num_rows} from DuckDB"
        return
    order = [(key, "ascending") for key in keys]
    ours, theirs = ours.sort_by(order), theirs.sort_by(order)
    for name in theirs.column_names:
        if (index := _first_difference(ours[name], theirs[name])) is not None:
            row = ", ".join(str(ours[key][index]) for key in keys)
            yield f"{name} of {row} is {ours[name][index]} from Spark and {theirs[name][index]} from DuckDB"


def _first_difference(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> int | None:
    if pa.types.is_string(ours.type):
        mask = pc.not_equal(ours, theirs.cast(ours.type)).to_numpy()
    else:
        left, right = (column.cast(pa.float64()).fill_null(np.nan).to_numpy() for column in (ours, theirs))
        relative = RELATIVE if pa.types.is_floating(ours.type) else 0.0
        mask = ~np.isclose(left, right, rtol=relative, atol=0.0, equal_nan=True)
    indexes = np.flatnonzero(mask)
    return int(indexes[0]) if len(indexes) else None
