"""Operational laws, which hold for any system, and open queues with closed formulas.

The operational laws relate measurements (throughput X, times R and S, clients N, think time Z) without assumptions
about distributions; a run that breaks them was measured wrongly. M/M/1 and M/M/m assume random arrivals and exponential
service; they are for comparison. Any unit of time is possible, if it is the same throughout.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stafette.errors import InvalidRequest


class Bounds(msgspec.Struct, frozen=True):
    """The upper bound of throughput and the lower bound of response time of a closed system.

    Up to `knee` clients the response time need not grow; beyond it `bottleneck` decides.
    """

    throughput: float
    response_time: float
    knee: float
    bottleneck: str


class OpenQueue(msgspec.Struct, frozen=True):
    """A queue in steady state. Times are of one request; `waiting` is without, `response_time` with its service."""

    utilisation: float
    must_wait: float
    waiting: float
    response_time: float
    waiting_count: float
    count: float


def utilisation(throughput: float, service_time: float, servers: int = 1) -> float:
    """U = X·S/m: the share of time in which a server is busy. Above 1, one of the numbers is wrong."""
    _check_servers(servers)
    return throughput * service_time / servers


def population(throughput: float, time: float) -> float:
    """Little's law: N = X·R, the mean number of requests in the system."""
    return throughput * time


def interactive_response_time(clients: float, throughput: float, think_time: float = 0.0) -> float:
    """R = N/X - Z: the response time of a closed loop, given its throughput."""
    _check_positive("throughput", throughput)
    return clients / throughput - think_time


def interactive_throughput(clients: float, response_time: float, think_time: float = 0.0) -> float:
    """X = N/(R + Z)."""
    _check_positive("response time plus think time", response_time + think_time)
    return clients / (response_time + think_time)


def asymptotic_bounds(
    demands: Mapping[str, float], clients: float, think_time: float = 0.0, servers: Mapping[str, int] | None = None
) -> Bounds:
    """The bounds of a closed system with these service demands per station.

    A station with m servers limits throughput as 1/m of its demand would, while a request still needs all of it.
    """
    if not demands:
        raise InvalidRequest("there is no station; give the service demand of each")
    for name, demand in demands.items():
        _check_positive(f"the demand of {name}", demand)
    _check_positive("the number of clients", clients)
    _check_times(think_time)
    counts = {name: (servers or {}).get(name, 1) for name in demands}
    for count in counts.values():
        _check_servers(count)
    limits = {name: demand / counts[name] for name, demand in demands.items()}
    bottleneck = max(limits, key=lambda name: limits[name])
    total, longest = sum(demands.values()), limits[bottleneck]
    return Bounds(
        throughput=min(1 / longest, clients / (total + think_time)),
        response_time=max(total, clients * longest - think_time),
        knee=(total + think_time) / longest,
        bottleneck=bottleneck,
    )


def single_server(arrival_rate: float, service_time: float) -> OpenQueue:
    """M/M/1."""
    return several_servers(arrival_rate, service_time, 1)


def several_servers(arrival_rate: float, service_time: float, servers: int) -> OpenQueue:
    """M/M/m: one queue in front of m equal servers."""
    _check_positive("the arrival rate", arrival_rate)
    _check_positive("the service time", service_time)
    busy = utilisation(arrival_rate, service_time, servers)
    must_wait = erlang_c(arrival_rate * service_time, servers)
    waiting = must_wait * service_time / (servers * (1 - busy))
    response_time = waiting + service_time
    return OpenQueue(
        utilisation=busy,
        must_wait=must_wait,
        waiting=waiting,
        response_time=response_time,
        waiting_count=arrival_rate * waiting,
        count=arrival_rate * response_time,
    )


def erlang_b(load: float, servers: int) -> float:
    """The share of requests that finds all servers busy, without a queue; load is arrival rate times service time."""
    _check_servers(servers)
    _check_times(load)
    blocked = 1.0
    for count in range(1, servers + 1):  # the recursion neither overflows nor cancels, as sums of powers do
        blocked = load * blocked / (count + load * blocked)
    return blocked


def erlang_c(load: float, servers: int) -> float:
    """The share of requests that must wait for a server."""
    _check_servers(servers)
    if load >= servers:
        raise InvalidRequest(
            f"a utilisation of {load / servers:.3g} has no steady state: the queue grows without end; "
            f"use more servers, or a lower rate"
        )
    blocked = erlang_b(load, servers)
    return blocked / (1 - load / servers * (1 - blocked))


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise InvalidRequest(f"{name} is {value:g}; it must be above 0")


def _check_times(value: float) -> None:
    if not value >= 0:
        raise InvalidRequest(f"a time or load of {value:g} is below 0; give 0 or more")


def _check_servers(servers: int) -> None:
    if servers < 1:
        raise InvalidRequest(f"{servers} servers are too few; give 1 or more")
