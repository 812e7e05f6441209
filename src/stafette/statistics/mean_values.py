"""Mean value analysis: what a closed network of clients, broker and database does, client by client.

A request that arrives finds what the network with one client less has on average; from that one step the figures for
any number of clients follow. Exact for exponential service and first come, first served (and, with one class, for
delays of any distribution). A centre with several servers needs to know how likely it is to be nearly idle; that is
taken from the same network without it, which stays exact under saturation, where one less all other probabilities is
only what rounding left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stafette.errors import InvalidRequest

MOST_SHARED_CENTRES = 8
"""Centres with several servers: each doubles the number of networks to solve."""


class Centre(msgspec.Struct, frozen=True):
    """Where requests spend time: a queue in front of `servers`, or a delay in which nobody waits for another.

    `demand` is the time a request needs there in all, over all its visits, when it is alone.
    """

    name: str
    demand: float
    servers: int = 1
    kind: Literal["queue", "delay"] = "queue"


class CentreLoad(msgspec.Struct, frozen=True):
    """A centre with so many clients: how busy each server is, how many requests are there, how long each stays."""

    utilisation: float
    count: float
    residence: float


class ClosedLoad(msgspec.Struct, frozen=True):
    """The network with so many clients; the response time is without thinking."""

    clients: int
    throughput: float
    response_time: float
    centres: dict[str, CentreLoad]


def mean_value_analysis(centres: Sequence[Centre], clients: int, think_time: float = 0.0) -> list[ClosedLoad]:
    """The network from 1 to so many clients, each of which thinks between requests."""
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
    """The network that the reports draw: clients that think, a network, a broker with workers, database connections."""
    centres = [
        Centre("network", network_delay, kind="delay"),
        Centre("broker", broker_demand, broker_servers),
        Centre("database", database_demand, database_servers),
    ]
    return mean_value_analysis(centres, clients, think_time)


_Throughputs: TypeAlias = NDArray[np.float64]


class _Network:
    """Solves a network and, once each, those of its parts that centres with several servers ask for."""

    def __init__(self, clients: int, think_time: float) -> None:
        self._clients = clients
        self._think_time = think_time
        self._known: dict[tuple[Centre, ...], _Throughputs] = {}

    def solve(self, centres: tuple[Centre, ...]) -> list[ClosedLoad]:
        """The figures for each number of clients."""
        others = [self._throughputs(_without(centres, one)) if one.servers > 1 else None for one in centres]
        stations = [_Station(centre, rest) for centre, rest in zip(centres, others, strict=True)]
        return [self._step(stations, clients) for clients in range(1, self._clients + 1)]

    def _step(self, stations: Sequence[_Station], clients: int) -> ClosedLoad:
        residences = [station.residence() for station in stations]
        response_time = sum(residences)
        round_trip = response_time + self._think_time
        throughput = clients / round_trip if round_trip > 0 else float("inf")
        loads = {}
        for station, residence in zip(stations, residences, strict=True):
            station.move_on(clients, throughput, residence)
            centre = station.centre
            busy = throughput * centre.demand / centre.servers
            loads[centre.name] = CentreLoad(busy, station.count, residence)
        return ClosedLoad(clients, throughput, response_time, loads)

    def _throughputs(self, centres: tuple[Centre, ...]) -> _Throughputs:
        """By number of clients, from 1; infinite in a network in which nothing takes time."""
        if centres not in self._known:
            if self._think_time + sum(centre.demand for centre in centres) > 0:
                found = np.array([load.throughput for load in self.solve(centres)])
            else:
                found = np.full(self._clients, np.inf)
            self._known[centres] = found
        return self._known[centres]


class _Station:
    """A centre while clients are added one by one: how many requests it has, and how likely few of them.

    few[j] is the probability that j are there, for j below the number of servers: all that waiting depends on.
    """

    def __init__(self, centre: Centre, without: _Throughputs | None) -> None:
        self.centre = centre
        self.count = 0.0
        self._without = without
        self._few = np.zeros(centre.servers)
        self._few[0] = 1.0

    def residence(self) -> float:
        """How long the next client's request stays, given what it finds."""
        centre = self.centre
        if centre.kind == "delay":
            return centre.demand
        spare = np.arange(centre.servers - 1, -1, -1.0)
        return float(centre.demand / centre.servers * (1 + self.count + spare @ self._few))

    def move_on(self, clients: int, throughput: float, residence: float) -> None:
        """What is there now that this many clients are."""
        self.count = throughput * residence
        if self._without is None:
            return
        demand, servers = self.centre.demand, self.centre.servers
        none = self._few[0] * throughput / self._without[clients - 1]
        self._few[1:] = throughput * demand / np.arange(1, servers) * self._few[:-1]
        self._few[0] = none


def _without(centres: tuple[Centre, ...], left_out: Centre) -> tuple[Centre, ...]:
    return tuple(centre for centre in centres if centre is not left_out)


def _check(centres: Sequence[Centre], clients: int, think_time: float) -> None:
    if clients < 1:
        raise InvalidRequest(f"{clients} clients make no requests; give 1 or more")
    if len({centre.name for centre in centres}) < len(centres):
        raise InvalidRequest("two centres have the same name; name each its own way")
    for centre in centres:
        if not centre.demand >= 0 or centre.servers < 1:
            raise InvalidRequest(
                f"centre {centre.name} has a demand of {centre.demand:g} and {centre.servers} servers; "
                f"a demand is 0 or more, and there is a server"
            )
    if not think_time >= 0:
        raise InvalidRequest(f"a think time of {think_time:g} is below 0; give 0 or more")
    if think_time + sum(centre.demand for centre in centres) == 0:
        raise InvalidRequest("nothing takes time in this network; give a demand or a think time")
    if sum(centre.servers > 1 for centre in centres) > MOST_SHARED_CENTRES:
        raise InvalidRequest(f"more than {MOST_SHARED_CENTRES} centres have several servers; join some of them")
