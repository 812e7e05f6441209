"""Results over several runs: points over their repetitions, curves against a factor, effects of a 2k design."""

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
class RunMetrics:
    """The metrics of a run and operation; None where there was nothing to measure."""

    run: Run
    metrics: Mapping[str, float | None]
    operation: str = ALL
    outcome: str = ANSWERED

    @property
    def covers_all(self) -> bool:
        """Whether it covers all operations together."""
        return (self.operation, self.outcome) == (ALL, ANSWERED)


def collect_metrics(runs: Sequence[Run], summary: pa.Table) -> list[RunMetrics]:
    """The metrics of each run that has rows: those of the clients, or of another tier if there are none.

    All operations together come first, then each operation with each outcome that is a success.
    """
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in summary.to_pylist():
        by_run.setdefault(row["run"], []).append(row)
    return [metrics for run in runs if run.run in by_run for metrics in _metrics_of_run(run, by_run[run.run])]


def _metrics_of_run(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[RunMetrics]:
    tier = "client" if any(row["tier"] == "client" for row in rows) else rows[0]["tier"]
    by_group = {(row["operation"], row["outcome"]): row for row in rows if row["tier"] == tier}
    overall = by_group.pop((ALL, ANSWERED), {})
    requests = sum(row["count"] for row in by_group.values())
    failures = sum(row["count"] for row in by_group.values() if row["outcome"] not in SUCCESSES)
    error_share = {"error_share": failures / requests if requests else None}
    return [
        RunMetrics(run, _metrics(overall) | error_share),
        *(RunMetrics(run, _metrics(row), *group) for group, row in by_group.items() if group[1] in SUCCESSES),
    ]


def _metrics(row: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: row.get(name) for name in METRICS} | {"throughput": row.get("throughput_per_s", 0.0)}


def points(all_metrics: Sequence[RunMetrics], level: float) -> pa.Table:
    """Each point of an experiment over its repetitions."""
    rows = []
    for repetitions in _group_repetitions(all_metrics).values():
        first = repetitions[0]
        for metric in METRICS:
            values = _values(repetitions, metric)
            if values:
                rows.append(
                    {"experiment": first.run.experiment, "label": first.run.label, "levels": _json(first.run.levels)}
                    | {"operation": first.operation, "outcome": first.outcome}
                    | {"repetitions": len(values), "metric": metric}
                    | _estimate_mean(values, level)
                )
    return result_tables.table("points", rows)


def curves(all_metrics: Sequence[RunMetrics], level: float) -> pa.Table:
    """Each metric against each factor, the other factors held."""
    rows = []
    for repetitions in _group_repetitions(all_metrics).values():
        first = repetitions[0]
        for factor, factor_level in first.run.levels.items():
            other_levels = {name: value for name, value in first.run.levels.items() if name != factor}
            for metric in METRICS:
                values = _values(repetitions, metric)
                if values:
                    rows.append(
                        {"experiment": first.run.experiment, "factor": factor, "level": _text(factor_level)}
                        | {"other_levels": _json(other_levels), "operation": first.operation, "outcome": first.outcome}
                        | {"metric": metric}
                        | _estimate_mean(values, level)
                    )
    order = ("experiment", "operation", "outcome", "factor", "other_levels", "metric")
    rows.sort(key=lambda row: [str(row[name]) for name in order])
    return result_tables.table("curves", rows)


def _estimate_mean(values: Sequence[float], level: float) -> dict[str, float | None]:
    estimate = intervals.mean_interval(values, level)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": estimate.value, "stddev": deviation, "low": estimate.low, "high": estimate.high}


def effects(all_metrics: Sequence[RunMetrics], level: float) -> tuple[pa.Table, list[str]]:
    """Effects in 2k designs, and the reason for each experiment that does not allow them."""
    rows: list[dict[str, Any]] = []
    reasons: list[str] = []
    experiments: dict[tuple[str, str, str], list[RunMetrics]] = {}
    for metrics in all_metrics:
        if metrics.run.design == "2k":
            experiments.setdefault((metrics.run.experiment, metrics.operation, metrics.outcome), []).append(metrics)
    for (experiment, operation, outcome), experiment_metrics in experiments.items():
        subject = experiment if experiment_metrics[0].covers_all else f"{experiment}, {operation} {outcome},"
        for metric in METRICS:
            observations = [
                observation for observation in experiment_metrics if observation.metrics[metric] is not None
            ]
            if not observations:
                continue
            if any(observation.run.levels.keys() != observations[0].run.levels.keys() for observation in observations):
                reasons.append(f"effects of {subject}: its runs have different factors; analyse each series alone")
                break
            factors = {
                name: [_text(observation.run.levels[name]) for observation in observations]
                for name in observations[0].run.levels
            }
            try:
                analysis = factorial.analyse(
                    factors, _values(observations, metric), level=level, where=_namer(observations)
                )
            except InvalidRequest as error:
                reasons.append(f"effects of {subject} on {metric}: {error.sentence}")
                continue
            key_columns = {"experiment": experiment, "operation": operation, "outcome": outcome, "metric": metric}
            rows += [
                key_columns
                | {"effect": effect.name, "value": effect.value, "low": effect.low, "high": effect.high}
                | {"variation_percent": effect.share}
                for effect in analysis.effects
            ]
            error_share = {"value": None, "low": None, "high": None, "variation_percent": analysis.error_share}
            rows.append(key_columns | {"effect": "error"} | error_share)
    return result_tables.table("effects", rows), reasons


def _namer(all_metrics: Sequence[RunMetrics]) -> Callable[[int], str]:
    return lambda index: all_metrics[index].run.run


def _group_repetitions(all_metrics: Sequence[RunMetrics]) -> dict[tuple[str, ...], list[RunMetrics]]:
    groups: dict[tuple[str, ...], list[RunMetrics]] = {}
    for metrics in all_metrics:
        key = (metrics.run.experiment, metrics.run.label, metrics.operation, metrics.outcome)
        groups.setdefault(key, []).append(metrics)
    return groups


def _values(all_metrics: Sequence[RunMetrics], metric: str) -> list[float]:
    return [value for run_metrics in all_metrics if (value := run_metrics.metrics[metric]) is not None]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(level: object) -> str:
    return level if isinstance(level, str) else json.dumps(level, ensure_ascii=False)
