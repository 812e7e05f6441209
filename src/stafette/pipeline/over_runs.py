"""What several runs say together: points over their repetitions, curves against a factor, effects of a 2k design."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline.sources.base import Run
from stafette.report import result_tables
from stafette.runs.outcomes import ALL, ANSWERED, SUCCESSES
from stafette.statistics import factorial, intervals

METRICS = (
    "throughput", "mean_ms", "stddev_ms", "p2_5_ms", "p50_ms", "p95_ms", "p97_5_ms", "p99_ms", "error_share",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One figure of each metric per run and operation; None where there was nothing to measure."""

    run: Run
    metrics: Mapping[str, float | None]
    operation: str = ALL
    outcome: str = ANSWERED

    @property
    def whole(self) -> bool:
        """Whether it is about all operations together."""
        return (self.operation, self.outcome) == (ALL, ANSWERED)


def measured(runs: Sequence[Run], summary: pa.Table) -> list[Measured]:
    """The metrics of each run that has rows: as the clients saw it, or else the tier that there is.

    The whole comes first, then each operation with each outcome that is a success.
    """
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in summary.to_pylist():
        by_run.setdefault(row["run"], []).append(row)
    return [part for run in runs if run.run in by_run for part in _parts(run, by_run[run.run])]


def _parts(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[Measured]:
    tier = "client" if any(row["tier"] == "client" for row in rows) else rows[0]["tier"]
    by_group = {(row["operation"], row["outcome"]): row for row in rows if row["tier"] == tier}
    whole = by_group.pop((ALL, ANSWERED), {})
    requests = sum(row["count"] for row in by_group.values())
    failed = sum(row["count"] for row in by_group.values() if row["outcome"] not in SUCCESSES)
    share = {"error_share": failed / requests if requests else None}
    return [
        Measured(run, _metrics(whole) | share),
        *(Measured(run, _metrics(row), *group) for group, row in by_group.items() if group[1] in SUCCESSES),
    ]


def _metrics(row: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: row.get(name) for name in METRICS} | {"throughput": row.get("throughput_per_s", 0.0)}


def points(found: Sequence[Measured], level: float) -> pa.Table:
    """Each point of an experiment over its repetitions."""
    rows = []
    for parts in _grouped(found).values():
        first = parts[0]
        for metric in METRICS:
            values = _values(parts, metric)
            if values:
                rows.append(
                    {"experiment": first.run.experiment, "label": first.run.label, "levels": _json(first.run.levels)}
                    | {"operation": first.operation, "outcome": first.outcome}
                    | {"repetitions": len(values), "metric": metric}
                    | _over_repetitions(values, level)
                )
    return result_tables.table("points", rows)


def curves(found: Sequence[Measured], level: float) -> pa.Table:
    """Each metric against each factor, the other factors held."""
    rows = []
    for parts in _grouped(found).values():
        first = parts[0]
        for factor, factor_level in first.run.levels.items():
            others = {name: value for name, value in first.run.levels.items() if name != factor}
            for metric in METRICS:
                values = _values(parts, metric)
                if values:
                    rows.append(
                        {"experiment": first.run.experiment, "factor": factor, "level": _text(factor_level)}
                        | {"other_levels": _json(others), "operation": first.operation, "outcome": first.outcome}
                        | {"metric": metric}
                        | _over_repetitions(values, level)
                    )
    order = ("experiment", "operation", "outcome", "factor", "other_levels", "metric")
    rows.sort(key=lambda row: [str(row[name]) for name in order])
    return result_tables.table("curves", rows)


def _over_repetitions(values: Sequence[float], level: float) -> dict[str, float | None]:
    estimate = intervals.mean_interval(values, level)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": estimate.value, "stddev": deviation, "low": estimate.low, "high": estimate.high}


def effects(found: Sequence[Measured], level: float) -> tuple[pa.Table, list[str]]:
    """Effects in 2k designs, with a sentence for each experiment that does not allow them."""
    rows: list[dict[str, Any]] = []
    sentences: list[str] = []
    experiments: dict[tuple[str, str, str], list[Measured]] = {}
    for part in found:
        if part.run.design == "2k":
            experiments.setdefault((part.run.experiment, part.operation, part.outcome), []).append(part)
    for (experiment, operation, outcome), parts in experiments.items():
        of = experiment if parts[0].whole else f"{experiment}, {operation} {outcome},"
        for metric in METRICS:
            there = [part for part in parts if part.metrics[metric] is not None]
            if not there:
                continue
            factors = {name: [_text(part.run.levels[name]) for part in there] for name in parts[0].run.levels}
            try:
                analysis = factorial.analyse(factors, _values(there, metric), level=level, where=_namer(there))
            except InvalidRequest as error:
                sentences.append(f"effects of {of} on {metric}: {error.sentence}")
                continue
            named = {"experiment": experiment, "operation": operation, "outcome": outcome, "metric": metric}
            rows += [
                named
                | {"effect": effect.name, "value": effect.value, "low": effect.low, "high": effect.high}
                | {"variation_percent": effect.share}
                for effect in analysis.effects
            ]
            error_share = {"value": None, "low": None, "high": None, "variation_percent": analysis.error_share}
            rows.append(named | {"effect": "error"} | error_share)
    return result_tables.table("effects", rows), sentences


def _namer(found: Sequence[Measured]) -> Callable[[int], str]:
    return lambda place: found[place].run.run


def _grouped(found: Sequence[Measured]) -> dict[tuple[str, ...], list[Measured]]:
    groups: dict[tuple[str, ...], list[Measured]] = {}
    for part in found:
        groups.setdefault((part.run.experiment, part.run.label, part.operation, part.outcome), []).append(part)
    return groups


def _values(found: Sequence[Measured], metric: str) -> list[float]:
    return [value for one in found if (value := one.metrics[metric]) is not None]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(level: object) -> str:
    return level if isinstance(level, str) else json.dumps(level, ensure_ascii=False)
