"""What several runs say together: points over their repetitions, curves against a factor, effects of a 2k design."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline.sources.base import Run
from stafette.report import result_tables
from stafette.runs.outcomes import ALL, ANSWERED, SUCCESSES
from stafette.statistics import factorial, intervals

METRICS = ("throughput", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "error_share")


@dataclass(frozen=True)
class Measured:
    """One figure of each metric per run; None where there was nothing to measure."""

    run: Run
    metrics: Mapping[str, float | None]


def measured(runs: Sequence[Run], summary: pa.Table) -> list[Measured]:
    """The metrics of each run that has rows: as the clients saw it, or else the tier that there is."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in summary.to_pylist():
        by_run.setdefault(row["run"], []).append(row)
    return [Measured(run, _metrics(by_run[run.run])) for run in runs if run.run in by_run]


def _metrics(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    tier = "client" if any(row["tier"] == "client" for row in rows) else rows[0]["tier"]
    mine = [row for row in rows if row["tier"] == tier]
    single = [row for row in mine if row["operation"] != ALL or row["outcome"] != ANSWERED]
    requests = sum(row["count"] for row in single)
    failed = sum(row["count"] for row in single if row["outcome"] not in SUCCESSES)
    whole: dict[str, Any] = next((row for row in mine if (row["operation"], row["outcome"]) == (ALL, ANSWERED)), {})
    found: dict[str, float | None] = {name: whole.get(name) for name in METRICS}
    return found | {
        "throughput": whole.get("throughput_per_s", 0.0),
        "error_share": failed / requests if requests else None,
    }


def points(found: Sequence[Measured], level: float) -> pa.Table:
    """Each point of an experiment over its repetitions."""
    rows = []
    for (experiment, label), mine in _grouped(found).items():
        for metric in METRICS:
            values = _values(mine, metric)
            if values:
                estimate = intervals.mean_interval(values, level)
                rows.append(
                    {"experiment": experiment, "label": label, "levels": _json(mine[0].run.levels)}
                    | {"repetitions": len(values), "metric": metric}
                    | {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
                )
    return result_tables.table("points", rows)


def curves(found: Sequence[Measured], level: float) -> pa.Table:
    """Each metric against each factor, the other factors held."""
    rows = []
    for mine in _grouped(found).values():
        levels = mine[0].run.levels
        for factor in levels:
            for metric in METRICS:
                values = _values(mine, metric)
                if not values:
                    continue
                estimate = intervals.mean_interval(values, level)
                others = {name: value for name, value in levels.items() if name != factor}
                rows.append(
                    {"experiment": mine[0].run.experiment, "factor": factor, "level": _text(levels[factor])}
                    | {"other_levels": _json(others), "metric": metric}
                    | {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
                )
    rows.sort(key=lambda row: [str(row[name]) for name in ("experiment", "factor", "other_levels", "metric")])
    return result_tables.table("curves", rows)


def effects(found: Sequence[Measured], level: float) -> tuple[pa.Table, list[str]]:
    """Effects in 2k designs, with a sentence for each experiment that does not allow them."""
    rows: list[dict[str, Any]] = []
    sentences: list[str] = []
    experiments: dict[str, list[Measured]] = {}
    for one in found:
        if one.run.design == "2k":
            experiments.setdefault(one.run.experiment, []).append(one)
    for experiment, mine in experiments.items():
        for metric in METRICS:
            kept = [one for one in mine if one.metrics[metric] is not None]
            factors = {name: [_text(one.run.levels[name]) for one in kept] for name in mine[0].run.levels}
            try:
                analysis = factorial.analyse(factors, _values(kept, metric), level=level, where=_namer(kept))
            except InvalidRequest as error:
                sentences.append(f"effects of {experiment} on {metric}: {error.sentence}")
                continue
            named = {"experiment": experiment, "metric": metric}
            rows += [
                named
                | {
                    "effect": one.name,
                    "value": one.value,
                    "low": one.low,
                    "high": one.high,
                    "variation_percent": one.share,
                }
                for one in analysis.effects
            ]
            error_share = {"value": None, "low": None, "high": None, "variation_percent": analysis.error_share}
            rows.append(named | {"effect": "error"} | error_share)
    return result_tables.table("effects", rows), sentences


def _namer(found: Sequence[Measured]) -> Callable[[int], str]:
    return lambda place: found[place].run.run


def _grouped(found: Sequence[Measured]) -> dict[tuple[str, str], list[Measured]]:
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in found:
        groups.setdefault((one.run.experiment, one.run.label), []).append(one)
    return groups


def _values(found: Sequence[Measured], metric: str) -> list[float]:
    return [value for one in found if (value := one.metrics[metric]) is not None]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(level: object) -> str:
    return level if isinstance(level, str) else json.dumps(level, ensure_ascii=False)
