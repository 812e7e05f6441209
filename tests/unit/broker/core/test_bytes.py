"""Batches have a limit of bytes; reads they did not reach go back; large frames and unread answers have limits."""

from __future__ import annotations

from stafette.broker.core.large_frames import LargeFrames
from stafette.broker.core.operation import LARGE_SEND, SEND
from stafette.broker.limits import FRAME_SECONDS, LARGE_FRAME, LARGE_FRAMES, LARGE_SEND_BYTES
from stafette.model import Draft
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, receive, send

SIZE = LARGE_SEND_BYTES


def large(number: int, size: int = SIZE) -> wire.Send:
    return wire.Send(number, [Draft(("jobs",), bytes(size))])


# Batches


def test_a_run_has_the_bytes_of_a_batch_at_most_and_one_request_at_least() -> None:
    script = Script(batch_bytes=int(2.5 * SIZE))
    alice = script.open()
    script.say(alice, large(2), large(3), large(4, 4 * SIZE), large(5))
    for expected in ([2, 3], [4], [5]):
        batch = script.batch()
        assert (ids(batch), batch.operation) == (expected, LARGE_SEND)
        script.complete(batch)


def test_a_batch_has_its_bytes_at_most_and_one_run_at_least() -> None:
    script = Script(batch_bytes=int(2.5 * SIZE))
    clients = [script.open(name) for name in ("alice", "bob", "carol", "dora")]
    for client, size in zip(clients, (SIZE, SIZE, SIZE, 9 * SIZE), strict=True):
        script.say(client, large(2, size))
    sizes = []
    while batches := script.batches():
        [batch] = batches
        sizes.append(len(batch.tickets))
        script.complete(batch)
    assert sizes == [2, 1, 1]


def test_small_sends_do_not_wait_for_large_ones() -> None:
    script = Script()
    greedy, modest = script.open("greedy"), script.open("modest")
    script.say(greedy, large(2))
    first = script.batch()
    script.say(modest, send(2))
    second = script.batch()
    assert [first.operation, second.operation] == [LARGE_SEND, SEND]


def test_large_sends_have_one_connection_at_most() -> None:
    script = Script(connections=4)
    clients = [script.open(f"client-{number}") for number in range(200)]
    for client in clients:
        script.say(client, large(2))
        assert len(script.batches()) == (1 if client is clients[0] else 0)


# Reads to which the batch did not come


def test_a_read_that_was_not_reached_is_the_next_of_its_session() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2), receive(3), receive(4), send(5))
    batch = script.batch()
    assert ids(batch) == [2, 3, 4]
    script.complete(batch, wire.Messages(2, []), None, None)
    assert [answer.id for answer in alice.answers] == [2]
    again = script.batch()
    assert ids(again) == [3, 4]
    script.complete(again)
    script.work()
    assert [answer.id for answer in alice.answers] == [2, 3, 4, 5]
    assert (script.core.admission.active, script.core.dispatcher.outstanding, alice.session.in_flight) == (0, 0, 0)


def test_it_is_not_tried_again_for_a_client_that_does_not_read() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2), receive(3))
    batch = script.batch()
    script.core.pause_writing(alice.session, 100, script.now)
    script.complete(batch, wire.Messages(2, []), None)
    assert script.batches() == []
    script.core.resume_writing(alice.session, script.now, partial=False)
    assert ids(script.batch()) == [3]


def test_a_waiting_read_that_was_not_reached_tries_again_and_waits_on() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.complete(script.batch(), None)
    script.work()
    assert len(script.core.waiting) == 1
    script.core.arrived("jobs")
    script.flush()
    script.complete(script.batch(), None)
    assert ids(script.batch()) == [2]
    assert (script.core.admission.active, alice.session.in_flight) == (1, 1)


def test_nothing_is_left_of_it_when_its_client_has_gone() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2), receive(3, wait=60))
    script.say(bob, receive(2, wait=60))
    batch = script.batch()
    script.hang_up(alice)
    script.complete(batch, None, None, wire.Messages(2, []))
    again = script.batch()  # the other read may take what alice does not get
    assert [ticket.session for ticket in again.tickets] == [bob.session]
    script.hang_up(bob)
    script.complete(again, None)
    core = script.core
    assert (core.admission.active, core.admission.bytes, core.dispatcher.outstanding) == (0, 0, 0)
    assert (core.waiting._by_session, core.waiting._trying, core.waiting._parked) == ({}, {}, {})


# Large frames


def begin(script: Script, connection: ScriptedConnection, size: int, *, complete_frame: bool = False) -> None:
    script.core.received(connection.session, script.now, begun=size, complete_frame=complete_frame)
    script.flush()


def test_large_frames_wait_for_room_in_order() -> None:
    script = Script()
    first, second, third, small = (script.open(name) for name in ("first", "second", "third", "small"))
    begin(script, first, LARGE_FRAMES - LARGE_FRAME)
    begin(script, second, 2 * LARGE_FRAME)
    begin(script, third, LARGE_FRAME + 1)
    begin(script, small, LARGE_FRAME)
    assert [client.reading for client in (first, second, third, small)] == [True, False, False, True]
    script.now += FRAME_SECONDS - 1
    begin(script, first, 0, complete_frame=True)
    assert (second.reading, third.reading) == (True, True)
    assert script.core.large_frames.bytes == 3 * LARGE_FRAME + 1


def test_who_waits_for_room_is_not_late() -> None:
    script = Script()
    first, second = script.open("first"), script.open("second")
    begin(script, first, LARGE_FRAMES)
    begin(script, second, LARGE_FRAMES)
    script.now += FRAME_SECONDS + 1
    script.core.drop_idle(script.now)
    script.flush()
    assert (first.aborted, second.aborted) == (True, False)
    script.hang_up(first)
    assert second.reading
    script.now += FRAME_SECONDS + 1
    script.core.drop_idle(script.now)
    script.flush()
    assert second.aborted


def test_a_client_that_does_not_read_is_not_read_from_when_its_frame_has_room() -> None:
    script = Script()
    first, second = script.open("first"), script.open("second")
    begin(script, first, LARGE_FRAMES)
    begin(script, second, LARGE_FRAMES)
    script.core.pause_writing(second.session, 100, script.now)
    begin(script, first, 0, complete_frame=True)
    assert not second.reading
    script.core.resume_writing(second.session, script.now, partial=True)
    script.flush()
    assert second.reading


def test_a_client_that_reads_again_still_waits_for_room() -> None:
    script = Script()
    first, second = script.open("first"), script.open("second")
    begin(script, first, LARGE_FRAMES)
    begin(script, second, LARGE_FRAMES)
    script.core.pause_writing(second.session, 100, script.now)
    script.core.resume_writing(second.session, script.now, partial=True)
    script.flush()
    assert not second.reading
    script.now += FRAME_SECONDS + 1
    script.core.drop_idle(script.now)
    script.flush()
    assert not second.aborted


def test_a_frame_that_is_larger_than_the_room_comes_alone() -> None:
    frames = LargeFrames(LARGE_FRAME)
    first, second = ScriptedConnection().session, ScriptedConnection().session
    assert frames.begin(first, 9 * LARGE_FRAME)
    assert frames.begin(first, 9 * LARGE_FRAME)  # it goes on
    assert not frames.begin(second, LARGE_FRAME + 1)
    assert frames.end(first) == [second]
    assert frames.end(second) == []
    assert frames.bytes == 0


# Unread answers


def test_the_worst_reader_is_dropped_when_all_have_too_much_unread() -> None:
    script = Script(unsent=1000)
    clients = [script.open(name) for name in ("alice", "bob", "carol")]
    for client, unsent in zip(clients, (300, 600, 200), strict=True):
        client.unsent = unsent
    script.core.bound_unsent()
    script.flush()
    assert [client.aborted for client in clients] == [False, True, False]
    assert script.core.admission.refusals == {"slow reader": 1}
    clients[1].unsent = 0
    script.core.bound_unsent()
    script.flush()
    assert [client.aborted for client in clients] == [False, True, False]
    assert kinds(clients[0].answers) == []
