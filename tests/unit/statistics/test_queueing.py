"""Laws, open queues and closed networks against what they follow from: sums over states."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stafette.errors import InvalidRequest
from stafette.statistics import queueing
from stafette.statistics.mean_values import Centre, ClosedLoad, client_broker_database, mean_value_analysis

times = st.floats(0.01, 10.0)


def test_the_laws_by_hand() -> None:
    """100 clients think for 1 s and get 80/s: 0.25 s each; 80/s of 10 ms on one server keep it busy for 80 %."""
    assert queueing.interactive_response_time(100, 80, 1.0) == pytest.approx(0.25)
    assert queueing.interactive_throughput(100, 0.25, 1.0) == pytest.approx(80)
    assert queueing.utilisation(80, 0.01) == pytest.approx(0.8)
    assert queueing.utilisation(80, 0.01, 4) == pytest.approx(0.2)
    assert queueing.population(80, 0.25) == pytest.approx(20)


def test_bounds_by_hand() -> None:
    """5, 20 and 10 ms: the database allows 50/s, which (0.035 + 0.5)/0.02 = 26.75 clients reach at best."""
    demands = {"client": 0.005, "database": 0.020, "broker": 0.010}
    few, many = (queueing.asymptotic_bounds(demands, clients, 0.5) for clients in (10, 100))
    assert few.bottleneck == "database"
    assert few.knee == pytest.approx(26.75)
    assert (few.throughput, few.response_time) == pytest.approx((10 / 0.535, 0.035))
    assert (many.throughput, many.response_time) == pytest.approx((50, 1.5))
    shared = queueing.asymptotic_bounds(demands, 100, 0.5, {"database": 4})
    assert shared.bottleneck == "broker"
    assert shared.throughput == pytest.approx(100)


def test_one_server_by_hand() -> None:
    """8/s at 0.1 s: busy for 0.8, 0.5 s in all, of which 0.4 s waiting; 4 inside."""
    found = queueing.single_server(8, 0.1)
    assert (found.utilisation, found.must_wait) == pytest.approx((0.8, 0.8))
    assert (found.response_time, found.waiting) == pytest.approx((0.5, 0.4))
    assert (found.count, found.waiting_count) == pytest.approx((4.0, 3.2))


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_erlang_c_is_its_sum(servers: int, busy: float) -> None:
    load = busy * servers
    below = sum(load**count / math.factorial(count) for count in range(servers))
    full = load**servers / math.factorial(servers) / (1 - busy)
    assert queueing.erlang_c(load, servers) == pytest.approx(full / (below + full), rel=1e-9)
    assert queueing.erlang_b(load, servers) == pytest.approx(full * (1 - busy) / (below + full * (1 - busy)), rel=1e-9)


@given(st.integers(1, 12), st.floats(0.05, 0.9), times)
def test_several_servers_are_their_states(servers: int, busy: float, service_time: float) -> None:
    """Against the probabilities of so many states that the rest is nothing."""
    rate = busy * servers / service_time
    weights = np.cumprod([1.0, *(rate * service_time / min(count, servers) for count in range(1, 600))])
    states, probability = np.arange(600), weights / weights.sum()
    found = queueing.several_servers(rate, service_time, servers)
    assert found.count == pytest.approx(float(states @ probability))
    assert found.waiting_count == pytest.approx(float(np.maximum(states - servers, 0) @ probability), abs=1e-12)
    assert found.must_wait == pytest.approx(float(probability[servers:].sum()))
    assert found.response_time == pytest.approx(found.waiting + service_time)


def test_queues_without_a_balance_are_refused() -> None:
    for rate in (10.0, 11.0):
        with pytest.raises(InvalidRequest, match=r"a utilisation of 1(\.1)? has no steady state"):
            queueing.single_server(rate, 0.1)
    with pytest.raises(InvalidRequest, match="0 servers are too few"):
        queueing.several_servers(1, 0.1, 0)
    with pytest.raises(InvalidRequest, match="the arrival rate is 0"):
        queueing.single_server(0, 0.1)
    with pytest.raises(InvalidRequest, match="throughput is 0"):
        queueing.interactive_response_time(5, 0)
    with pytest.raises(InvalidRequest, match="there is no station"):
        queueing.asymptotic_bounds({}, 5)


def markov(broker: tuple[float, int], database: tuple[float, int], clients: int, think: float) -> tuple[float, ...]:
    """Throughput and the two populations, from the balance of every state (at the broker, at the database)."""
    states = [state for state in product(range(clients + 1), repeat=2) if sum(state) <= clients]
    place = {state: index for index, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    for b, d in states:
        moves = [
            ((b + 1, d), (clients - b - d) / think),
            ((b - 1, d + 1), min(b, broker[1]) / broker[0]),
            ((b, d - 1), min(d, database[1]) / database[0]),
        ]
        for target, rate in moves:
            if rate:
                rates[place[b, d], place[target]] += rate
                rates[place[b, d], place[b, d]] -= rate
    system = np.vstack([rates.T, np.ones(len(states))])
    probability = np.linalg.lstsq(system, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    at_broker, at_database = np.array(states).T
    throughput = float(probability @ (np.minimum(at_database, database[1]) / database[0]))
    return throughput, float(probability @ at_broker), float(probability @ at_database)


@settings(max_examples=60)
@given(st.floats(0.1, 3), st.integers(1, 4), st.floats(0.1, 3), st.integers(1, 4), st.integers(1, 7), st.floats(0.1, 5))
def test_a_closed_network_is_its_states(
    broker: float, workers: int, database: float, connections: int, clients: int, think: float
) -> None:
    wanted = markov((broker, workers), (database, connections), clients, think)
    *_, found = client_broker_database(
        broker, database, clients, think, broker_servers=workers, database_servers=connections
    )
    assert (found.throughput, found.centres["broker"].count, found.centres["database"].count) == pytest.approx(wanted)
    assert found.centres["database"].utilisation == pytest.approx(wanted[0] * database / connections)
    assert found.response_time == pytest.approx(clients / wanted[0] - think)


centre_lists = st.lists(
    st.tuples(times, st.sampled_from([1, 1, 2, 5, 30]), st.sampled_from(["queue", "queue", "delay"])),
    min_size=1,
    max_size=4,
)


@given(centre_lists, st.floats(0, 20))
def test_closed_networks_keep_the_laws_and_the_bounds(drawn: list[tuple[float, int, str]], think: float) -> None:
    centres = [
        Centre(str(number), demand, servers, "delay" if kind == "delay" else "queue")
        for number, (demand, servers, kind) in enumerate(drawn)
    ]
    before = 0.0
    for load in mean_value_analysis(centres, 120, think):
        inside = sum(one.count for one in load.centres.values())
        assert inside + load.throughput * think == pytest.approx(load.clients)
        assert load.throughput >= before * (1 - 1e-9)
        before = load.throughput
        assert_within_bounds(load, centres, think)


def assert_within_bounds(load: ClosedLoad, centres: list[Centre], think: float) -> None:
    total = sum(centre.demand for centre in centres)
    queues = {centre.name: centre for centre in centres if centre.kind == "queue"}
    assert load.response_time >= total * (1 - 1e-9)
    for name, centre in queues.items():
        assert load.centres[name].utilisation <= 1 + 1e-9
        assert load.centres[name].residence >= centre.demand * (1 - 1e-9)
    if queues:
        delays = total - sum(centre.demand for centre in queues.values())
        demands = {name: centre.demand for name, centre in queues.items()}
        servers = {name: centre.servers for name, centre in queues.items()}
        bounds = queueing.asymptotic_bounds(demands, load.clients, think + delays, servers)
        assert load.throughput <= bounds.throughput * (1 + 1e-9)


def test_saturation_does_not_lose_digits() -> None:
    """64 servers and 2000 clients: one less the sum of all other probabilities would be rounding, or below zero."""
    *_, last = client_broker_database(0.001, 0.1, 2000, 0.5, broker_servers=4, database_servers=64)
    assert last.throughput == pytest.approx(640, rel=1e-9)
    assert last.centres["broker"].count == pytest.approx(queueing.several_servers(640, 0.001, 4).count, rel=1e-6)
    assert last.response_time == pytest.approx(2000 / 640 - 0.5)


def test_networks_that_are_refused() -> None:
    for centres, clients, think, sentence in (
        ([Centre("a", 1.0)], 0, 0.0, "0 clients make no requests"),
        ([Centre("a", 1.0), Centre("a", 2.0)], 1, 0.0, "two centres have the same name"),
        ([Centre("a", -1.0)], 1, 0.0, "centre a has a demand of -1"),
        ([Centre("a", 1.0, 0)], 1, 0.0, "and 0 servers"),
        ([Centre("a", 1.0)], 1, -1.0, "a think time of -1"),
        ([Centre("a", 0.0)], 1, 0.0, "nothing takes time"),
        ([Centre(str(number), 1.0, 2) for number in range(9)], 1, 0.0, "more than 8 centres"),
    ):
        with pytest.raises(InvalidRequest, match=sentence):
            mean_value_analysis(centres, clients, think)
