"""Whether two ways came to the same tables: whole numbers to the last digit, others to 12 digits."""

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
"""The tables, and what names a row of each."""


def differences(ours: Mapping[str, pa.Table], theirs: Mapping[str, pa.Table]) -> Iterator[str]:
    """Sentences about what differs; only columns that both have are looked at."""
    for name, keys in KEYS.items():
        mine = ours[name]
        if name == "windows":  # of what succeeded ours has the empty ones, too
            mine = mine.filter(pc.or_(pc.greater(mine["count"], 0), pc.greater(mine["throughput_per_s"], 0)))
        yield from (f"{name}: {sentence}" for sentence in _of_table(mine, theirs[name], keys))


def _of_table(ours: pa.Table, theirs: pa.Table, keys: tuple[str, ...]) -> Iterator[str]:
    if ours.num_rows != theirs.num_rows:
        yield f"{ours.num_rows} rows from Spark, {theirs.num_rows} from DuckDB"
        return
    order = [(key, "ascending") for key in keys]
    ours, theirs = ours.sort_by(order), theirs.sort_by(order)
    for name in theirs.column_names:
        if (place := _first_difference(ours[name], theirs[name])) is not None:
            row = ", ".join(str(ours[key][place]) for key in keys)
            yield f"{name} of {row} is {ours[name][place]} from Spark and {theirs[name][place]} from DuckDB"


def _first_difference(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> int | None:
    if pa.types.is_string(ours.type):
        wrong = pc.not_equal(ours, theirs.cast(ours.type)).to_numpy()
    else:
        mine, other = (column.cast(pa.float64()).fill_null(np.nan).to_numpy() for column in (ours, theirs))
        relative = RELATIVE if pa.types.is_floating(ours.type) else 0.0
        wrong = ~np.isclose(mine, other, rtol=relative, atol=0.0, equal_nan=True)
    places = np.flatnonzero(wrong)
    return int(places[0]) if len(places) else None
