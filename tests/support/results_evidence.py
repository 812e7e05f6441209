"""Evidence for docs/results.md, as an analysis would give it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bench.results.evidence import Evidence
from stafette.report import result_tables
from stafette.report.figures.table_rows import RunMetadata


def summary(run: str, throughput: float, mean: float, operation: str = "all", outcome: str = "answered") -> Any:
    row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["summary"].names)
    return row | {
        "run": run, "tier": "client", "operation": operation, "outcome": outcome, "count": 10, "mean_ms": mean,
        "p50_ms": mean, "stddev_ms": 1.0, "throughput_per_s": throughput,
    }  # fmt: skip


def windows(run: str, means: Sequence[float], throughput: Sequence[float]) -> list[dict[str, Any]]:
    row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["windows"].names)
    row |= {"run": run, "tier": "client", "operation": "all", "outcome": "answered", "seconds": 1.0, "count": 5}
    return [
        row | {"second": float(second), "mean_ms": mean, "throughput_per_s": rate}
        for second, (mean, rate) in enumerate(zip(means, throughput, strict=True))
    ]


def evidence(design: str = "sweep", runs: Sequence[RunMetadata] = (), **tables: Sequence[Any]) -> Evidence:
    filled: dict[str, pa.Table] = {name: result_tables.table(name, rows) for name, rows in tables.items()}
    empty = {name: schema.empty_table() for name, schema in result_tables.TABLES.items()}
    return Evidence("made-up", design, runs, empty | filled)


def against_clients(*points: tuple[int, float, float]) -> Evidence:
    """Throughput and mean response time at numbers of clients."""
    runs = [
        RunMetadata(str(clients), label=f"clients={clients}", levels={"clients": clients}) for clients, _, _ in points
    ]
    return evidence(runs=runs, summary=[summary(str(clients), rate, mean) for clients, rate, mean in points])
