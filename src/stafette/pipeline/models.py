"""Models beside what was measured: mean value analysis, bounds, M/M/1 and M/M/m, and the Universal Scalability Law.

Service demands are processor time per request, from the samples: a model that is given the response time it is to
predict would predict nothing. What the data do not allow is said in a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline.over_runs import Measured
from stafette.report import result_tables
from stafette.statistics import mean_values, queueing, scalability

MOST_CLIENTS = 20_000
"""Mean value analysis goes through all numbers of clients up to the one asked for."""


@dataclass(frozen=True)
class Loaded:
    """One number of clients: what was measured there over all repetitions, and the demands."""

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
    found: Sequence[Measured], busy: Mapping[str, Mapping[str, float]], network_s: Mapping[str, float], level: float
) -> tuple[pa.Table, list[str]]:
    """All models of all experiments, and why some are missing. Runs count for a model when only clients vary."""
    rows: list[dict[str, Any]] = []
    sentences: list[str] = []
    experiments: dict[str, list[Measured]] = {}
    for one in found:
        experiments.setdefault(one.run.experiment, []).append(one)
    for experiment, mine in experiments.items():
        try:
            loads = _loads(mine, busy, network_s)
            for load in loads:
                rows += _queues(experiment, load, sentences)
            rows += _scalability(experiment, mine, level)
        except InvalidRequest as error:
            sentences.append(f"models of {experiment}: {error.sentence}")
    return result_tables.table("models", rows), list(dict.fromkeys(sentences))


def _loads(
    found: Sequence[Measured], busy: Mapping[str, Mapping[str, float]], network_s: Mapping[str, float]
) -> list[Loaded]:
    """The numbers of clients at which there was a closed loop, samples, and answers."""
    by_clients: dict[int, list[Measured]] = {}
    for one in found:
        throughput, clients = one.metrics["throughput"], sum(one.run.clients.values())
        if not throughput or not clients or one.metrics["mean_ms"] is None:
            continue
        if one.run.think_time_s is None:
            raise InvalidRequest("it is not a closed loop; its clients do not wait for answers")
        if not busy.get(one.run.run):
            raise InvalidRequest("there are no samples of the processes; without them no service demand is known")
        by_clients.setdefault(clients, []).append(one)
    others = {
        str(sorted((name, str(value)) for name, value in one.run.levels.items() if "client" not in name))
        for one in found
    }
    if len(others) > 1 and len({sum(one.run.clients.values()) for one in found}) < len(
        {one.run.label for one in found}
    ):
        raise InvalidRequest("more than the number of clients varies; look at one curve at a time")
    return [_load(clients, mine, busy, network_s) for clients, mine in sorted(by_clients.items())]


def _load(
    clients: int, mine: Sequence[Measured], busy: Mapping[str, Mapping[str, float]], network_s: Mapping[str, float]
) -> Loaded:
    throughput = float(np.mean([one.metrics["throughput"] for one in mine]))
    cores = {
        part: float(np.mean([busy[one.run.run].get(part, 0.0) for one in mine]))
        for part in dict.fromkeys(part for one in mine for part in busy[one.run.run])
    }
    return Loaded(
        clients,
        throughput,
        float(np.mean([one.metrics["mean_ms"] for one in mine])) / 1000,
        mine[0].run.think_time_s or 0.0,
        max(1, mine[0].run.brokers or 1),
        {part: used / throughput for part, used in cores.items() if used > 0},
        cores,
        float(np.mean([network_s.get(one.run.run, 0.0) for one in mine])),
    )


def _queues(experiment: str, load: Loaded, sentences: list[str]) -> list[dict[str, Any]]:
    if not load.demands:
        sentences.append(f"models of {experiment}: no process used any processor time in the samples")
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
        solved = mean_values.client_broker_database(
            load.demands.get("broker", 0.0),
            load.demands.get("database", 0.0),
            load.clients,
            load.think_time_s,
            broker_servers=servers.get("broker", 1),
            database_servers=servers.get("database", 1),
            network_delay=max(0.0, load.network_s),
        )[-1]
        add("mva", solved.throughput, solved.response_time)
    if "broker" in load.demands:
        for model, count in (("mm1", 1), ("mmm", load.brokers)):
            try:
                rate = load.throughput / (load.brokers if model == "mm1" else 1)
                add(model, None, queueing.several_servers(rate, load.demands["broker"], count).response_time)
            except InvalidRequest as error:
                sentences.append(f"{model} of {experiment} with {load.clients} clients: {error.sentence}")
    return rows


def _scalability(experiment: str, found: Sequence[Measured], level: float) -> list[dict[str, Any]]:
    pairs = [(sum(one.run.clients.values()), one.metrics["throughput"]) for one in found]
    kept = [(clients, throughput) for clients, throughput in pairs if clients and throughput]
    loads = sorted({clients for clients, _ in kept})
    law = scalability.fit_scalability([float(clients) for clients, _ in kept], [each for _, each in kept], level)
    rows = []
    for load in loads:
        measured, expected = float(np.mean([each for at, each in kept if at == load])), law.interval_at(load)
        row = _row(experiment, "usl", load, "throughput", measured, expected.value)
        rows.append(row | {"low": expected.low, "high": expected.high})
    return rows


def _row(experiment: str, model: str, x: int, metric: str, measured: float, predicted: float) -> dict[str, Any]:
    """Only a fitted model has an interval; the others say what follows from the demands."""
    named = {"experiment": experiment, "model": model, "x": float(x), "metric": metric}
    return named | {"measured": measured, "predicted": predicted, "low": None, "high": None}
