"""Trace files as a run leaves them, of rows that a test makes up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stafette.lab.running.trace_rows import Rows, read
from stafette.trace import PHASES, SCHEMA

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Row:
    """One request in one tier; times in nanoseconds."""

    client: str = "alice-1"
    request: int = 1
    operation: str = "send"
    outcome: str = "ok"
    intended_ns: int = 0
    start_ns: int = 0
    end_ns: int = MILLISECOND
    messages: int = 0
    tier: str = "client"
    node: str = "load-1"
    write_ns: int | None = None


def at_broker(row: Row, node: str = "broker-1") -> Row:
    """What the broker records of a client's row: the same, but for less long."""
    return replace(row, tier="broker", node=node, intended_ns=row.start_ns, write_ns=6)


def write(path: Path, rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> None:
    """Write one file."""
    columns = [_phases(row) | asdict(row) | {"run": "r-1", "bytes": 10, "batch": None} for row in rows]
    table = pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in columns], schema=schema)
    pq.write_table(table, path)


def _phases(row: Row) -> dict[str, int | None]:
    return {name: number if row.tier == "broker" else None for number, name in enumerate(PHASES)}


def report(folder: Path, tier: str, node: str, rows: int, dropped: int = 0, why: str | None = None) -> None:
    """Write an end report."""
    told = {"tier": tier, "node": node, "rows": rows, "dropped": dropped, "why": why}
    (folder / f"{tier}-{node}.json").write_text(json.dumps(told))


def run_of(folder: Path, rows: Iterable[Row]) -> Rows:
    """Write the rows of a run, a file and an end report per process, and read them again."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    rows = list(rows)
    for (tier, node), count in Counter((row.tier, row.node) for row in rows).items():
        mine = [row for row in rows if (row.tier, row.node) == (tier, node)]
        write(folder / f"{tier}-{node}-00001.parquet", mine)
        report(folder, tier, node, count)
    return read(folder)
