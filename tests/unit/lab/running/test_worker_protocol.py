"""Jobs of load processes: who belongs where, and who joins when."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.errors import InvalidRequest
from stafette.lab.running.worker import rotate_brokers
from stafette.lab.running.worker_protocol import Group, Job, Ramp, Start, joined_by, joins_at, load_clients, read


def job(worker: int, workers: int, **groups: Group) -> Job:
    return Job("r", 1, worker, workers, "load-1", "traces", 1.0, (0.0, 1.0), groups)


def test_clients_are_dealt_to_workers_in_turn_over_all_groups() -> None:
    groups = {"alice": Group("alice", 3), "bob": Group("bob", 2)}
    assert [client.name for client in load_clients(job(0, 2, **groups))] == ["alice-1", "alice-3", "bob-2"]
    assert [client.name for client in load_clients(job(1, 2, **groups))] == ["alice-2", "bob-1"]
    dealt = [client.index for worker in range(4) for client in load_clients(job(worker, 4, **groups))]
    assert sorted(dealt) == [0, 1, 2, 3, 4]


def test_a_ramp_lets_clients_in_by_their_number_in_the_whole_group() -> None:
    ramp = Ramp(2, 30.0)
    assert [joins_at(number, ramp) for number in range(1, 6)] == [0, 0, 30, 30, 60]
    assert joins_at(77, None) == 0


def test_clients_are_spread_over_the_brokers() -> None:
    assert rotate_brokers("stafette://a:1,b:2,c:3", 0) == "stafette://a:1,b:2,c:3"
    assert rotate_brokers("stafettes://a:1,b:2,c:3/?ca=x,y", 4) == "stafettes://b:2,c:3,a:1/?ca=x,y"


def test_a_job_with_a_key_too_many_or_a_window_outside_the_load_is_refused() -> None:
    fields = msgspec.to_builtins(job(0, 1, alice=Group("alice", 3)))
    assert read(msgspec.json.encode(fields), Job).groups["alice"].count == 3
    for wrong, sentence in (({"colour": 1}, "colour"), ({"window": [0, 2]}, "window"), ({"worker": 1}, "worker")):
        with pytest.raises(InvalidRequest, match=sentence):
            read(msgspec.json.encode({**fields, **wrong}), Job)
    with pytest.raises(InvalidRequest, match="start"):
        read(b"{}", Start)


@given(st.integers(1, 50), st.integers(1, 9), st.sampled_from([0.0, 0.5, 2.0]), st.floats(0, 30))
def test_those_who_have_joined_are_those_whose_time_has_come(
    count: int, at_once: int, every: float, seconds: float
) -> None:
    ramp = Ramp(at_once, every)
    joined = [number for number in range(1, count + 1) if joins_at(number, ramp) <= seconds]
    assert joined_by(seconds, ramp, count) == len(joined)
