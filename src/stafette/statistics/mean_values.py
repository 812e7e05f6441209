"""Mean value analysis of a closed network of clients, broker and database.

An arriving request finds the mean state of the network with one client less, so the metrics follow client by client.
Exact for exponential service and first come, first served (and, with one class, for delays of any distribution). A
centre with several servers needs the probability that it is nearly idle. That is taken from the same network without
this centre, which stays exact under saturation; one minus all other probabilities would be mostly rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stafette.errors import InvalidRequest

MAX_MULTI_SERVER_CENTRES = 8
"""Centres with several servers: each doubles the number of networks to solve."""


class Centre(msgspec.Struct, frozen=True):
    """Where requests spend time: a queue in front of `servers`, or a delay without waiting.

    `demand` is the total time a request needs there, over all its visits, if it is alone.
    """

    name: str
    demand: float
    servers: int = 1
    kind: Literal["queue", "delay"] = "queue"


class CentreLoad(msgspec.Struct, frozen=True):
    """The state of a centre: utilisation of each server, number of requests, and how long each stays."""

    utilisation: float
    count: float
    residence: float


class ClosedLoad(msgspec.Struct, frozen=True):
    """The network with `clients` clients; the response time is without think time."""

    clients: int
    throughput: float
    response_time: float
    centres: dict[str, CentreLoad]


def mean_value_analysis(centres: Sequence[Centre], clients: int, think_time: float = 0.0) -> list[ClosedLoad]:
    """The network with 1 to `clients` clients, each with a think time between requests."""
    _check(centres, clients, think_time)
    return _Network(clients, think_time).solve(tuple(centres))


def client_broker_database(
    broker_demand: float,
    database_demand: float,
    clients: int,
    think_time: float = 0.0,
    *,
    broker_servers: int = 1,
    database_servers: int = 1,
    network_delay: float = 0.0,
) -> list[ClosedLoad]:
    """The network of the reports: clients with think time, a network, a broker with workers, database connections."""
    centres = [
        Centre("network", network_delay, kind="delay"),
        Centre("broker", broker_demand, broker_servers),
        Centre("database", database_demand, database_servers),
    ]
    return mean_value_analysis(centres, clients, think_time)


_Throughputs: TypeAlias = NDArray[np.float64]


class _Network:
    """Solves a network and, once each, the reduced networks that centres with several servers need."""

    def __init__(self, clients: int, think_time: float) -> None:
        self._clients = clients
        self._think_time = think_time
        self._throughputs_by_centres: dict[tuple[Centre, ...], _Throughputs] = {}

    def solve(self, centres: tuple[Centre, ...]) -> list[ClosedLoad]:
        """The solution for each number of clients."""
        reduced_throughputs = [
            self._throughputs(_without(centres, centre)) if centre.servers > 1 else None for centre in centres
        ]
        stations = [
            _Station(centre, without_centre)
            for centre, without_centre in zip(centres, reduced_throughputs, strict=True)
        ]
        return [self._step(stations, clients) for clients in range(1, self._clients + 1)]

    def _step(self, stations: Sequence[_Station], clients: int) -> ClosedLoad:
        residences = [station.residence() for station in stations]
        response_time = sum(residences)
        round_trip = response_time + self._think_time
        throughput = clients / round_trip if round_trip > 0 else float("inf")
        loads = {}
        for station, residence in zip(stations, residences, strict=True):
            station.update(clients, throughput, residence)
            centre = station.centre
            busy = throughput * centre.demand / centre.servers
            loads[centre.name] = CentreLoad(busy, station.count, residence)
        return ClosedLoad(clients, throughput, response_time, loads)

    def _throughputs(self, centres: tuple[Centre, ...]) -> _Throughputs:
        """By number of clients, from 1; infinite in a network in which nothing takes time."""
        if centres not in self._throughputs_by_centres:
            if self._think_time + sum(centre.demand for centre in centres) > 0:
                throughputs = np.array([load.throughput for load in self.solve(centres)])
            else:
                throughputs = np.full(self._clients, np.inf)
            self._throughputs_by_centres[centres] = throughputs
        return self._throughputs_by_centres[centres]


class _Station:
    """A centre while clients are added one by one: its mean number of requests, and the probabilities of few.

    few[j] is the probability of j requests, for j below the number of servers: all that waiting depends on.
    """

    def __init__(self, centre: Centre, without: _Throughputs | None) -> None:
        self.centre = centre
        self.count = 0.0
        self._without = without
        self._few = np.zeros(centre.servers)
        self._few[0] = 1.0

    def residence(self) -> float:
        """How long the next client's request stays, given the present state."""
        centre = self.centre
        if centre.kind == "delay":
            return centre.demand
        spare = np.arange(centre.servers - 1, -1, -1.0)
        return float(centre.demand / centre.servers * (1 + self.count + spare @ self._few))

    def update(self, clients: int, throughput: float, residence: float) -> None:
        """Update the state to this number of clients."""
        self.count = throughput * residence
        if self._without is None:
            return
        demand, servers = self.centre.demand, self.centre.servers
        idle = self._few[0] * throughput / self._without[clients - 1]
        self._few[1:] = throughput * demand / np.arange(1, servers) * self._few[:-1]
        self._few[0] = idle


def _without(centres: tuple[Centre, ...], removed: Centre) -> tuple[Centre, ...]:
    return tuple(centre for centre in centres if centre is not removed)


def _check(centres: Sequence[Centre], clients: int, think_time: float) -> None:
    if clients < 1:
        raise InvalidRequest(f"{clients} clients make no requests; give 1 or more")
    if len({centre.name for centre in centres}) < len(centres):
        raise InvalidRequest("two centres have the same name; give each its own")
    for centre in centres:
        if not centre.demand >= 0 or centre.servers < 1:
            raise InvalidRequest(
                f"centre {centre.name} has a demand of {centre.demand:g} and {centre.servers} servers; "
                f"give a demand of 0 or more, and at least 1 server"
            )
    if not think_time >= 0:
        raise InvalidRequest(f"a think time of {think_time:g} is below 0; give 0 or more")
    if think_time + sum(centre.demand for centre in centres) == 0:
        raise InvalidRequest("nothing takes time in this network; give a demand or a think time")
    if sum(centre.servers > 1 for centre in centres) > MAX_MULTI_SERVER_CENTRES:
        raise InvalidRequest(f"more than {MAX_MULTI_SERVER_CENTRES} centres have several servers; join some of them")
