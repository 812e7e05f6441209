"""What is taken on, and what is refused at once."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from stafette.broker.core.admission import Admission
from stafette.broker.core.operation import READS
from stafette.broker.core.session import Session
from stafette.broker.limits import SMALL_SHARE, Limits
from stafette.errors import Overloaded, PermissionDenied
from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from stafette.protocol.request_size import STORED_MESSAGE
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, receive, send

CHANGES = [kind for kind in get_args(wire.Request) if kind not in {*READS, wire.Hello}]


def reader() -> Session:
    session = Session(ScriptedConnection())
    session.name = "reader"
    return session


def example(kind: type) -> wire.Request:
    """A request of a kind; what it says does not matter here."""
    fields: dict[str, object] = {field.name: None for field in msgspec.structs.fields(kind)}
    if "selection" in fields:
        fields["selection"] = Selection()
    request: wire.Request = kind(**fields)
    return request


@pytest.mark.parametrize("kind", CHANGES)
def test_what_changes_something_is_refused_to_read_only_clients(kind: type) -> None:
    assert isinstance(Admission(Limits()).refusal(reader(), example(kind), 0), PermissionDenied)


@pytest.mark.parametrize("kind", sorted(READS, key=str))
def test_what_only_looks_is_not(kind: type) -> None:
    assert Admission(Limits()).refusal(reader(), example(kind), 0) is None


def test_a_request_that_nobody_has_thought_of_is_refused_to_read_only_clients() -> None:
    class Shred(wire.Frame, tag=99):
        """A new kind of request."""

    shred: wire.Request = Shred(1)  # type: ignore[assignment]
    assert isinstance(Admission(Limits()).refusal(reader(), shred, 0), PermissionDenied)


def test_one_client_has_its_limit_and_leaves_room_for_others() -> None:
    script = Script(in_flight_per_client=3, batch=1)
    greedy, modest = script.open("greedy"), script.open("modest")
    script.say(greedy, *(send(number) for number in range(2, 7)))
    assert [answer.id for answer in greedy.answers] == [5, 6]
    assert kinds(greedy.answers) == ["Overloaded"] * 2
    script.say(modest, send(2))
    assert modest.answers == []
    assert script.core.admission.refusals == {"Overloaded": 2}


def test_all_clients_together_have_theirs() -> None:
    script = Script(in_flight=2)
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, send(2))
    script.say(bob, send(2), send(3))
    assert [(answer.id, kinds([answer])) for answer in bob.take_answers()] == [(3, ["Overloaded"])]
    script.work()
    script.say(bob, send(4))
    script.work()
    assert kinds(bob.answers) == ["Sent", "Sent"]


def test_reads_that_wait_do_not_count_but_do_again_when_they_are_woken() -> None:
    script = Script(in_flight=1)
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2, wait=60))
    script.work()
    assert script.core.admission.active == 0
    script.core.arrived("jobs")
    script.flush()
    assert script.core.admission.active == 1
    script.say(bob, send(2))
    assert kinds(bob.answers) == ["Overloaded"]


def test_a_refusal_names_the_limit_that_was_met() -> None:
    admission, session = Admission(Limits(in_flight=1, in_flight_per_client=1)), reader()
    session.mode = "full"
    assert admission.refusal(session, send(1), 0) is None
    admission.active = 1
    assert "the broker" in str(admission.refusal(session, send(1), 0))
    session.in_flight = 1
    refusal = admission.refusal(session, send(1), 0)
    assert isinstance(refusal, Overloaded)
    assert "this client" in str(refusal)


def test_requests_of_a_client_that_hung_up_no_longer_count() -> None:
    script = Script(batch=1)
    alice = script.open("alice")
    script.say(alice, *(send(number) for number in range(2, 6)))
    batch = script.batch()
    assert ids(batch) == [2]
    script.hang_up(alice)
    assert script.core.admission.active == 1
    script.complete(batch)
    assert script.core.admission.active == 0


# Bytes


def large(number: int, size: int, queues: int = 1) -> wire.Send:
    """A request that sends one message of so many bytes."""
    return wire.Send(number, [Draft(tuple(f"q{queue}" for queue in range(queues)), bytes(size))])


def test_a_message_counts_once_for_every_queue() -> None:
    script = Script(in_flight_bytes_per_client=1_000_000)
    alice = script.open("alice")
    script.say(alice, large(2, 10_000, queues=100))
    [refusal] = alice.take_answers()
    assert isinstance(refusal, wire.Failed)
    assert (refusal.name, refusal.outcome) == ("MessageTooLarge", "not done")
    assert f"{100 * (10_000 + STORED_MESSAGE)} bytes" in refusal.sentence
    script.say(alice, large(3, 10_000, queues=90))
    assert alice.answers == []
    assert script.core.admission.bytes == alice.session.in_flight_bytes == 90 * (10_000 + STORED_MESSAGE)
    assert script.core.admission.refused_bytes == 100 * (10_000 + STORED_MESSAGE)


def test_one_client_has_its_limit_of_bytes() -> None:
    script = Script(in_flight_bytes_per_client=100_000, batch=1)
    alice = script.open("alice")
    script.say(alice, large(2, 60_000), large(3, 60_000), large(4, 30_000))
    assert [(answer.id, kinds([answer])) for answer in alice.take_answers()] == [(3, ["Overloaded"])]
    script.work()
    assert kinds(alice.take_answers()) == ["Sent", "Sent"]
    script.say(alice, large(5, 60_000))
    script.work()
    assert kinds(alice.answers) == ["Sent"]
    assert script.core.admission.bytes == alice.session.in_flight_bytes == 0


def test_half_of_all_bytes_is_kept_for_clients_with_few() -> None:
    script = Script(in_flight_bytes=8 * SMALL_SHARE, batch=1)
    greedy, modest = script.open("greedy"), script.open("modest")
    script.say(greedy, *(large(number, SMALL_SHARE - STORED_MESSAGE) for number in range(2, 8)))
    assert [answer.id for answer in greedy.answers] == [6, 7]
    assert kinds(greedy.answers) == ["Overloaded"] * 2
    script.say(modest, large(2, SMALL_SHARE // 2))
    assert modest.answers == []


def test_all_clients_together_have_their_limit_of_bytes_however_few_each_has() -> None:
    script = Script(in_flight_bytes=100_000)
    clients = [script.open(name) for name in ("alice", "bob", "carol")]
    for client in clients:
        script.say(client, large(2, 40_000))
    assert [kinds(client.answers) for client in clients] == [[], [], ["Overloaded"]]
    script.hang_up(clients[0])
    script.work()
    assert script.core.admission.bytes == 0


def test_bytes_of_a_client_that_hung_up_no_longer_count() -> None:
    script = Script(batch=1)
    alice = script.open("alice")
    script.say(alice, *(large(number, 1000) for number in range(2, 6)))
    batch = script.batch()
    script.hang_up(alice)
    assert script.core.admission.bytes == 1000 + STORED_MESSAGE
    script.complete(batch)
    assert script.core.admission.bytes == 0


def test_a_parked_read_of_a_client_that_hung_up_no_longer_counts() -> None:
    script = Script()
    alice = script.open("alice")
    script.say(alice, wire.Receive(2, Selection("jobs"), 60.0, seen=(1,)))
    script.work()
    assert script.core.admission.bytes > 0
    script.hang_up(alice)
    assert script.core.admission.bytes == 0


def test_the_welcome_has_the_limits() -> None:
    script = Script(in_flight_bytes_per_client=12_345)
    alice = script.connect()
    script.say(alice, wire.Hello(1, wire.VERSION, "alice"))
    script.authenticate(alice)
    [welcome] = alice.answers
    assert isinstance(welcome, wire.Welcome)
    assert welcome.max_in_flight_bytes == 12_345
