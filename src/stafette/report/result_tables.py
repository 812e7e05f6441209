"""The result tables: the name and columns of each. The analysis writes them; the report and pages read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from stafette.errors import InternalError

_TEXT, _WHOLE, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _schema(texts: str = "", **columns: str) -> pa.Schema:
    """A schema: text columns first, then `columns` by type (`whole`, `number`, `flag` or `text`), in order."""
    fields = [(name, _TEXT) for name in texts.split()]
    types = {"whole": _WHOLE, "number": _NUMBER, "flag": _FLAG, "text": _TEXT}
    return pa.schema(fields + [(name, types[kind]) for name, kind in columns.items()])


PERCENTILES = {
    "p2_5_ms": 25,
    "p50_ms": 500,
    "p90_ms": 900,
    "p95_ms": 950,
    "p97_5_ms": 975,
    "p99_ms": 990,
    "p99_9_ms": 999,
}
"""The percentiles of the summary, in thousandths, so that ranks are whole numbers."""
WINDOW_PERCENTILES = {"p50_ms": 500, "p95_ms": 950, "p99_ms": 990}
PHASES = ("read_ms", "decode_ms", "queue_ms", "database_ms", "parked_ms", "encode_ms", "write_ms")
"""The means of the broker's phases."""
_GROUP = "run tier operation outcome"

TABLES: dict[str, pa.Schema] = {
    "summary": _schema(
        _GROUP, count="whole", mean_ms="number", stddev_ms="number", mean_low_ms="number", mean_high_ms="number",
        **dict.fromkeys(PERCENTILES, "number"), max_ms="number", throughput_per_s="number",
        throughput_stddev="number", throughput_low="number", throughput_high="number", interval_kind="text",
        interval_level="number", interval_n="whole", interval_reason="text", bytes="whole", messages="whole",
    ),
    "shares": _schema(_GROUP, limit_ms="number", share="number"),
    "windows": _schema(
        _GROUP, second="number", seconds="number", count="whole", throughput_per_s="number", mean_ms="number",
        **dict.fromkeys(WINDOW_PERCENTILES, "number"), max_ms="number", measured_count="whole",
        measured_total_ms="number", measured_answers="whole", measured_seconds="number",
    ),
    "breakdown": _schema(
        "run operation outcome", count="whole", client_ms="number", **dict.fromkeys(PHASES, "number"),
        client_queue_ms="number", client_encode_ms="number", client_read_ms="number", unexplained_ms="number",
    ),
    "joins": _schema(
        "run", client_rows="whole", broker_rows="whole", joined="whole", client_only="whole", broker_only="whole",
        never_sent="whole",
    ),
    "distribution": _schema("run operation outcome", low_ms="number", high_ms="number", count="whole"),
    "phases": _schema(
        "run operation outcome phase", count="whole", mean_ms="number", stddev_ms="number",
        **dict.fromkeys(PERCENTILES, "number"), max_ms="number",
    ),
    "phase_windows": _schema("run phase", second="number", count="whole", mean_ms="number"),
    "queues": _schema("run", second="number", queue="text", messages="whole"),
    "costs": _schema("run", second="number", process="text", cpu_share="number", resident_bytes="whole"),
    "points": _schema(
        "experiment label levels operation outcome", repetitions="whole", metric="text", mean="number",
        stddev="number", low="number", high="number"
    ),
    "curves": _schema(
        "experiment factor level other_levels operation outcome metric", mean="number", stddev="number",
        low="number", high="number"
    ),
    "effects": _schema(
        "experiment operation outcome metric effect", value="number", low="number", high="number",
        variation_percent="number"
    ),
    "laws": _schema("run law", expected="number", found="number", ratio="number", ok="flag", sentence="text"),
    "warm_up": _schema("run", given_s="number", found_s="number", sentence="text"),
    "stationarity": _schema(
        "run metric", statistic="number", p_value="number", stationary="flag", sentence="text"
    ),
    "models": _schema(
        "experiment model", x="number", metric="text", measured="number", predicted="number", low="number",
        high="number",
    ),
    "rejects": _schema("file", line="whole", text="text", reason="text"),
    "reject_reasons": _schema("reason", count="whole"),
}  # fmt: skip

SUMMARY_KEYS = (
    "run", "tier", "operation", "outcome", "count", "mean_ms", "stddev_ms", "mean_interval_ms",
    "interval", "p50_ms", "p95_ms", "p99_ms", "max_ms", "throughput_per_s", "throughput_interval_per_s",
)  # fmt: skip
"""The keys of each object in summary.json."""


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A result table from rows, which must have exactly its columns."""
    schema, row_list = TABLES[name], list(rows)
    for row in row_list:
        if row.keys() != set(schema.names):
            raise InternalError(f"a row of {name} does not match its schema: {sorted(row.keys() ^ set(schema.names))}")
    return pa.Table.from_pylist(row_list, schema=schema)


def columns(name: str, values: Mapping[str, Any]) -> pa.Table:
    """A result table from columns."""
    schema = TABLES[name]
    if values.keys() != set(schema.names):
        raise InternalError(f"the table {name} does not match its schema: {sorted(values.keys() ^ set(schema.names))}")
    return pa.Table.from_arrays([pa.array(values[field.name], type=field.type) for field in schema], schema=schema)
