"""Requests of one session keep their order; those of many share batches; connections of the database are dealt out."""

from __future__ import annotations

import pytest

from stafette.broker.core.dispatcher import WORTH_A_CALL, Dispatcher
from stafette.broker.core.operation import DELETE, RECEIVE, SEND, SINGLE, operation_of
from stafette.broker.core.session import Session, Ticket
from stafette.broker.metrics import Metrics
from stafette.errors import QueueNotFound
from stafette.model import Selection
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, receive, send


def run(*numbers: int, timeout: float = 1e9, accepted_at: float = 0.0) -> list[Ticket]:
    """A run of sends of one session."""
    session = Session(ScriptedConnection())
    session.timeout = timeout
    return [Ticket(session, send(number), accepted_at) for number in numbers]


def dispatcher(connections: int = 4, batch: int = 512, batch_bytes: int = 2**24) -> Dispatcher:
    return Dispatcher(connections=connections, batch=batch, batch_bytes=batch_bytes, metrics=Metrics())


def test_consecutive_sends_of_a_session_are_one_run() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, send(2), send(3), wire.Ack(4, 1, 1), wire.Ack(5, 2, 2), send(6))
    for expected in ([2, 3], [4, 5], [6]):
        batch = script.batch()
        assert ids(batch) == expected
        script.say(alice)  # nothing new: nothing goes beside it
        assert script.batches() == []
        script.complete(batch)
    assert [answer.id for answer in alice.answers] == [2, 3, 4, 5, 6]


def test_an_administrative_request_goes_alone() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, wire.ListQueues(2), wire.ListQueues(3))
    first = script.batch()
    assert (ids(first), first.operation) == ([2], SINGLE)
    script.complete(first)
    assert ids(script.batch()) == [3]


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (receive(2, "a"), receive(3, "a"), True),
        (receive(2, "a"), receive(3, "b"), True),
        (receive(2, "a"), receive(3, "a", sender="bob"), False),
        (receive(2, "a"), receive(3, "a", count=2), False),
        (receive(2, None), receive(3, None), True),
        (receive(2, None), receive(3, "a"), False),
        (receive(2, "a"), receive(3, None), False),
        (receive(2, "a"), wire.Lease(3, Selection("a")), False),
        (wire.Peek(2, Selection("a")), wire.Peek(3, Selection("b")), True),
        (send(2, "a"), send(3, "b"), True),
        (send(2, "a"), receive(3, "a"), False),
    ],
)
def test_requests_share_a_batch_when_that_keeps_their_order(
    first: wire.Request, second: wire.Request, together: bool
) -> None:
    script = Script()
    alice = script.open()
    script.say(alice, first, second)
    assert ids(script.batch()) == ([2, 3] if together else [2])


def test_a_run_is_as_long_as_a_batch_at_most() -> None:
    script = Script(batch=3)
    alice = script.open()
    script.say(alice, *(send(number) for number in range(2, 7)))
    first = script.batch()
    assert ids(first) == [2, 3, 4]
    script.complete(first)
    assert ids(script.batch()) == [5, 6]


def test_sessions_share_a_batch() -> None:
    script = Script()
    clients = [script.open(name) for name in ("alice", "bob", "carol")]
    for client in clients:
        script.say(client, send(2))
    batch = script.batch()
    assert [ticket.session for ticket in batch.tickets] == [client.session for client in clients]
    script.complete(batch, wire.Sent(2, [[1]]), QueueNotFound("no such queue"), wire.Sent(2, [[2]]))
    assert [kinds(client.answers) for client in clients] == [["Sent"], ["QueueNotFound"], ["Sent"]]


def test_the_next_run_goes_once_the_whole_of_the_one_before_is_back() -> None:
    script = Script(connections=4)
    alice = script.open()
    script.say(alice, send(2), receive(3), wire.Ack(4, 1, 1))
    batch = script.batch()
    script.core.dispatcher.finished(batch)  # the connection is free, the answers are not given yet
    assert script.batches() == []
    script.core.complete(batch, [wire.Sent(2, [[1]])], script.now)
    script.flush()
    assert ids(script.batch()) == [3]


def test_a_second_call_of_an_operation_waits_until_it_is_worth_its_commit() -> None:
    many = dispatcher()
    many.submit(SEND, run(0))
    assert many.next_batch(0.0) is not None
    for number in range(1, WORTH_A_CALL):
        many.submit(SEND, run(number))
        assert many.next_batch(0.0) is None
    many.submit(SEND, run(WORTH_A_CALL))
    batch = many.next_batch(0.0)
    assert batch is not None
    assert ids(batch) == list(range(1, WORTH_A_CALL + 1))


def test_single_requests_go_side_by_side_as_long_as_connections_are_free() -> None:
    two = dispatcher(connections=2)
    for number in range(3):
        two.submit(SINGLE, run(number))
    first, second = two.next_batch(0.0), two.next_batch(0.0)
    assert first is not None
    assert second is not None
    assert two.next_batch(0.0) is None
    two.finished(first)
    third = two.next_batch(0.0)
    assert third is not None
    assert [ids(batch) for batch in (first, second, third)] == [[0], [1], [2]]


def test_the_operation_that_has_waited_longest_goes_first() -> None:
    busy = dispatcher(connections=1)
    busy.submit(RECEIVE, run(1))
    first = busy.next_batch(0.0)
    assert first is not None
    busy.submit(SEND, run(2))
    busy.submit(RECEIVE, run(3))
    busy.submit(SEND, run(4))
    busy.finished(first)
    second = busy.next_batch(0.0)
    assert second is not None
    assert (second.operation, ids(second)) == (SEND, [2, 4])


def test_a_run_is_never_split_even_if_its_batch_becomes_larger() -> None:
    small = dispatcher(batch=3)
    small.submit(SEND, run(1, 2))
    small.submit(SEND, run(3, 4))
    small.submit(SEND, run(5))
    first = small.next_batch(0.0)
    assert first is not None
    assert ids(first) == [1, 2, 3, 4]


def test_there_is_news_only_when_something_came_and_a_connection_is_free() -> None:
    one = dispatcher(connections=1)
    assert not one.has_news
    one.submit(SEND, run(1))
    assert one.has_news
    assert one.next_batch(0.0) is not None
    assert not one.has_news
    one.submit(SEND, run(2))
    assert not one.has_news  # it is looked for when the first is back
    two = dispatcher(connections=2)
    two.submit(SEND, run(1))
    assert two.next_batch(0.0) is not None
    two.submit(SEND, run(2))
    assert two.next_batch(0.0) is None  # not worth a call yet
    assert not two.has_news  # and asking again would not help


def test_what_could_not_start_in_time_is_answered_without_the_database() -> None:
    script = Script(connections=1)
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, wire.ListQueues(2))
    batch = script.batch()
    script.say(bob, wire.ListQueues(2))
    script.now += bob.session.timeout + 1
    script.core.dispatcher.finished(batch)
    assert script.batches() == []
    assert kinds(bob.answers) == ["RequestTimeout"]
    script.core.complete(batch, [wire.Queues(2, [])], script.now)
    script.flush()
    assert kinds(alice.answers) == ["Queues"]
    assert script.core.dispatcher.outstanding == script.core.admission.active == 0


def test_late_requests_leave_room_for_those_behind_them() -> None:
    patient = dispatcher(batch=2)
    patient.submit(SEND, run(1, timeout=1.0))
    patient.submit(SEND, run(2, 3))
    batch = patient.next_batch(5.0)
    assert batch is not None
    assert (ids(batch), [ticket.request.id for ticket in batch.late]) == ([2, 3], [1])


def test_nobody_who_has_gone_is_given_messages_but_what_it_sent_is_stored() -> None:
    script = Script()
    reader, writer = script.open("reader"), script.open("writer")
    script.say(reader, receive(2))
    script.say(writer, send(2))
    script.hang_up(reader)
    script.hang_up(writer)
    assert [ids(batch) for batch in script.batches()] == [[2]]
    assert script.core.dispatcher.outstanding == 1


def test_how_long_requests_waited_is_counted_once() -> None:
    metrics = Metrics()
    one = Dispatcher(connections=1, batch=8, batch_bytes=2**24, metrics=metrics)
    one.submit(SEND, run(1, 2, accepted_at=1.0))
    one.next_batch(3.0)
    assert (metrics.queue_seconds.total, sum(metrics.queue_seconds.counts)) == (4.0, 2)
    [again] = run(3)
    again.deadline = 10.0  # a read that waits and tries again
    other = Dispatcher(connections=1, batch=8, batch_bytes=2**24, metrics=metrics)
    other.submit(SEND, [again])
    other.next_batch(3.0)
    assert sum(metrics.queue_seconds.counts) == 2


def test_every_kind_of_request_has_an_operation() -> None:
    assert operation_of(wire.ListQueues(1)) is SINGLE
    assert operation_of(wire.Purge(1, "jobs")) is DELETE
    assert operation_of(send(1)) is SEND


def test_one_delete_at_a_time_leaves_the_other_connections_free() -> None:
    """It may have to wait for somebody's open transaction, for seconds."""
    script = Script(connections=2)
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, wire.Purge(2, "jobs"))
    script.say(bob, wire.DeleteQueue(2, "jobs"))
    first = script.batch()
    assert (ids(first), first.operation) == ([2], DELETE)
    carol = script.open("carol")
    script.say(carol, wire.ListQueues(2))
    other = script.batch()
    assert other.operation is SINGLE
    script.complete(first)
    assert script.batch().operation is DELETE
