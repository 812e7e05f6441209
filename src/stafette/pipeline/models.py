"""Models beside the measurement: mean value analysis, bounds, M/M/1 and M/M/m, and the Universal Scalability Law.

Service demands are processor time per request, from the samples: a model whose input is the response time cannot
predict it. Each model that the data do not allow is listed with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline.over_runs import RunMetrics
from stafette.report import result_tables
from stafette.statistics import mean_values, queueing, scalability

MOST_CLIENTS = 20_000
"""Mean value analysis computes every number of clients up to the requested one."""


@dataclass(frozen=True)
class LoadPoint:
    """One number of clients: the measurement over all its repetitions, and the demands."""

    clients: int
    throughput: float
    mean_s: float
    think_time_s: float
    brokers: int
    demands: Mapping[str, float]
    """Seconds of processor time per request."""
    cores: Mapping[str, float]
    network_s: float


def models(
    all_metrics: Sequence[RunMetrics],
    cores_by_run: Mapping[str, Mapping[str, float]],
    network_s: Mapping[str, float],
    level: float,
) -> tuple[pa.Table, list[str]]:
    """All models of all experiments, and the reasons why some are missing. Only the number of clients may vary."""
    rows: list[dict[str, Any]] = []
    reasons: list[str] = []
    experiments: dict[str, list[RunMetrics]] = {}
    for run_metrics in all_metrics:
        experiments.setdefault(run_metrics.run.experiment, []).append(run_metrics)
    for experiment, experiment_metrics in experiments.items():
        try:
            loads = _loads(experiment_metrics, cores_by_run, network_s)
            for load in loads:
                rows += _queues(experiment, load, reasons)
            rows += _scalability(experiment, experiment_metrics, level)
        except InvalidRequest as error:
            reasons.append(f"models of {experiment}: {error.sentence}")
    return result_tables.table("models", rows), list(dict.fromkeys(reasons))


def _loads(
    all_metrics: Sequence[RunMetrics], cores_by_run: Mapping[str, Mapping[str, float]], network_s: Mapping[str, float]
) -> list[LoadPoint]:
    """The numbers of clients that have a closed loop, samples, and answers."""
    by_clients: dict[int, list[RunMetrics]] = {}
    for run_metrics in all_metrics:
        throughput, clients = run_metrics.metrics["throughput"], sum(run_metrics.run.clients.values())
        if not throughput or not clients or run_metrics.metrics["mean_ms"] is None:
            continue
        if run_metrics.run.think_time_s is None:
            raise InvalidRequest("it is not a closed loop; its clients do not wait for answers")
        if not cores_by_run.get(run_metrics.run.run):
            raise InvalidRequest("there are no samples of the processes; without them no service demand is known")
        by_clients.setdefault(clients, []).append(run_metrics)
    other_levels = {
        str(sorted((name, str(value)) for name, value in run_metrics.run.levels.items() if "client" not in name))
        for run_metrics in all_metrics
    }
    if len(other_levels) > 1 and len({sum(run_metrics.run.clients.values()) for run_metrics in all_metrics}) < len(
        {run_metrics.run.label for run_metrics in all_metrics}
    ):
        raise InvalidRequest("more than the number of clients varies; look at one curve at a time")
    return [_load(clients, repetitions, cores_by_run, network_s) for clients, repetitions in sorted(by_clients.items())]


def _load(
    clients: int,
    repetitions: Sequence[RunMetrics],
    cores_by_run: Mapping[str, Mapping[str, float]],
    network_s: Mapping[str, float],
) -> LoadPoint:
    throughput = float(np.mean([run_metrics.metrics["throughput"] for run_metrics in repetitions]))
    cores = {
        part: float(np.mean([cores_by_run[run_metrics.run.run].get(part, 0.0) for run_metrics in repetitions]))
        for part in dict.fromkeys(part for run_metrics in repetitions for part in cores_by_run[run_metrics.run.run])
    }
    return LoadPoint(
        clients,
        throughput,
        float(np.mean([run_metrics.metrics["mean_ms"] for run_metrics in repetitions])) / 1000,
        repetitions[0].run.think_time_s or 0.0,
        max(1, repetitions[0].run.brokers or 1),
        {part: count / throughput for part, count in cores.items() if count > 0},
        cores,
        float(np.mean([network_s.get(run_metrics.run.run, 0.0) for run_metrics in repetitions])),
    )


def _queues(experiment: str, load: LoadPoint, reasons: list[str]) -> list[dict[str, Any]]:
    if not load.demands:
        reasons.append(f"models of {experiment}: no process used any processor time in the samples")
        return []
    servers = {part: load.brokers if part == "broker" else max(1, math.ceil(load.cores[part])) for part in load.demands}
    rows = []

    def add(model: str, throughput: float | None, response_s: float | None) -> None:
        for metric, measured, predicted in (
            ("throughput", load.throughput, throughput),
            ("mean_ms", 1000 * load.mean_s, None if response_s is None else 1000 * response_s),
        ):
            if predicted is not None:
                rows.append(_row(experiment, model, load.clients, metric, measured, predicted))

    bounds = queueing.asymptotic_bounds(load.demands, load.clients, load.think_time_s, servers)
    add("bounds", bounds.throughput, bounds.response_time)
    if load.clients <= MOST_CLIENTS:
        solution = mean_values.client_broker_database(
            load.demands.get("broker", 0.0),
            load.demands.get("database", 0.0),
            load.clients,
            load.think_time_s,
            broker_servers=servers.get("broker", 1),
            database_servers=servers.get("database", 1),
            network_delay=max(0.0, load.network_s),
        )[-1]
        add("mva", solution.throughput, solution.response_time)
    if "broker" in load.demands:
        for model, count in (("mm1", 1), ("mmm", load.brokers)):
            try:
                rate = load.throughput / (load.brokers if model == "mm1" else 1)
                add(model, None, queueing.several_servers(rate, load.demands["broker"], count).response_time)
            except InvalidRequest as error:
                reasons.append(f"{model} of {experiment} with {load.clients} clients: {error.sentence}")
    return rows


def _scalability(experiment: str, all_metrics: Sequence[RunMetrics], level: float) -> list[dict[str, Any]]:
    pairs = [(sum(run_metrics.run.clients.values()), run_metrics.metrics["throughput"]) for run_metrics in all_metrics]
    points = [(clients, rate) for clients, rate in pairs if clients and rate]
    loads = sorted({clients for clients, _ in points})
    law = scalability.fit_scalability([float(clients) for clients, _ in points], [rate for _, rate in points], level)
    rows = []
    for load in loads:
        mean, prediction = float(np.mean([rate for clients, rate in points if clients == load])), law.interval_at(load)
        row = _row(experiment, "usl", load, "throughput", mean, prediction.value)
        rows.append(row | {"low": prediction.low, "high": prediction.high})
    return rows


def _row(experiment: str, model: str, x: int, metric: str, measured: float, predicted: float) -> dict[str, Any]:
    """Only a fitted model has an interval; the others say what follows from the demands."""
    key_columns = {"experiment": experiment, "model": model, "x": float(x), "metric": metric}
    return key_columns | {"measured": measured, "predicted": predicted, "low": None, "high": None}
