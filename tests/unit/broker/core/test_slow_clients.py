"""Idle timeouts, and clients that do not read their answers."""

from __future__ import annotations

import pytest

from stafette.broker.core.session import State
from stafette.broker.limits import FAIR_READ, FRAME_SECONDS, HANG_UP_SECONDS, HELLO_SECONDS, READ_SECONDS
from stafette.errors import MessageTooLarge
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, send

TOKEN = 1
"""Of the session that a script opens first."""


def is_dropped(script: Script, connection: ScriptedConnection) -> bool:
    script.core.drop_idle(script.now)
    script.flush()
    return connection.aborted


def test_who_does_not_say_hello_in_time_is_hung_up_on() -> None:
    script = Script()
    silent = script.connect()
    script.now += HELLO_SECONDS
    assert not is_dropped(script, silent)
    script.now += 0.1
    assert is_dropped(script, silent)
    assert script.core.admission.refusals == {"too slow": 1}


def test_half_a_hello_is_no_hello() -> None:
    script = Script()
    silent = script.connect()
    script.now += HELLO_SECONDS - 1
    script.say(silent, partial=True)
    script.now += 2
    assert is_dropped(script, silent)


def test_who_waits_to_be_authenticated_has_done_its_part() -> None:
    script = Script()
    alice = script.connect()
    script.say(alice, wire.Hello(1, wire.VERSION, "alice"))
    script.now += 1e6
    assert not is_dropped(script, alice)


def test_an_idle_client_may_be_idle() -> None:
    script = Script()
    alice = script.open()
    script.now += 1e6
    assert not is_dropped(script, alice)


def test_a_begun_frame_has_to_end() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, partial=True)
    script.now += FRAME_SECONDS - 1
    script.say(alice, partial=True)  # a little more of the same
    script.now += 2
    assert is_dropped(script, alice)


def test_time_counts_from_the_last_frame_that_came_to_its_end() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, partial=True)
    script.now += FRAME_SECONDS - 1
    script.say(alice, wire.Echo(2, b""), partial=True)
    script.now += 2
    assert not is_dropped(script, alice)
    script.say(alice, wire.Echo(3, b""))
    script.now += 1e6
    assert not is_dropped(script, alice)


def test_nothing_more_is_done_for_who_does_not_read() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, wire.ListQueues(2), wire.ListQueues(3))
    batch = script.batch()
    script.core.pause_writing(alice.session, 100, script.now)
    script.flush()
    assert not alice.reading
    script.complete(batch)
    assert script.batches() == []
    script.core.resume_writing(alice.session, script.now, partial=False)
    script.flush()
    assert alice.reading
    assert ids(script.batch()) == [3]


def test_a_reply_that_fills_the_buffer_holds_back_the_next_request_at_once() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, wire.ListQueues(2), wire.ListQueues(3))
    plain_reply = alice.reply

    def full(request: wire.Request | None, answer: wire.Answer) -> None:
        plain_reply(request, answer)
        script.core.pause_writing(alice.session, 100, script.now)  # as transports do it, inside of the write

    alice.reply = full  # type: ignore[method-assign]
    script.complete(script.batch())
    assert script.batches() == []


@pytest.mark.parametrize(("unread", "dropped"), [(3 * FAIR_READ, True), (2 * FAIR_READ + 1, True), (FAIR_READ, False)])
def test_who_reads_a_fair_part_in_time_stays(unread: int, dropped: bool) -> None:
    script = Script()
    alice = script.open()
    script.core.pause_writing(alice.session, 3 * FAIR_READ, script.now)
    alice.unsent = unread
    script.now += READ_SECONDS + 1
    assert is_dropped(script, alice) is dropped
    if not dropped:
        script.now += READ_SECONDS + 1  # and nothing has been read since
        assert is_dropped(script, alice)
    assert script.core.admission.refusals == {"slow reader": 1}


def test_who_catches_up_has_all_its_time_again() -> None:
    script = Script()
    alice = script.open()
    script.core.pause_writing(alice.session, 100, script.now)
    script.core.resume_writing(alice.session, script.now, partial=False)
    script.now += 1e6
    assert not is_dropped(script, alice)


def test_who_catches_up_in_the_middle_of_a_frame_has_to_end_it() -> None:
    script = Script()
    alice = script.open()
    script.core.pause_writing(alice.session, 100, script.now)
    script.now += READ_SECONDS - 1
    script.core.resume_writing(alice.session, script.now, partial=True)
    script.now += 2
    assert not is_dropped(script, alice)
    script.now += FRAME_SECONDS
    assert is_dropped(script, alice)


def test_what_arrives_while_the_client_does_not_read_does_not_end_its_time() -> None:
    script = Script()
    alice = script.open()
    script.core.pause_writing(alice.session, 100, script.now)
    alice.unsent = 100
    script.now += READ_SECONDS - 1
    script.say(alice)
    script.now += 2
    assert is_dropped(script, alice)


def test_who_was_told_to_leave_has_to_hang_up() -> None:
    script = Script()
    alice = script.open("alice", client=7)
    script.core.disconnect(7, TOKEN, script.now)
    script.say(alice, wire.Echo(2, b"one more"))
    script.now += HANG_UP_SECONDS + 1
    assert is_dropped(script, alice)


def test_a_frame_that_is_too_large_ends_the_stream() -> None:
    script = Script()
    alice = script.open()
    script.core.end_stream(alice.session, MessageTooLarge("too large; send less at once"), script.now)
    script.flush()
    assert kinds(alice.answers) == ["MessageTooLarge"]
    assert alice.answers[0].id == 0
    assert alice.closed
    script.now += HANG_UP_SECONDS + 1
    assert is_dropped(script, alice)


def test_what_is_no_request_is_refused_by_its_id_and_the_stream_goes_on() -> None:
    script = Script()
    alice = script.open()
    assert script.core.fault(alice.session, wire.Undecodable("not valid", 5), script.now)
    script.flush()
    assert [(answer.id, kinds([answer])) for answer in alice.answers] == [(5, ["InvalidRequest"])]
    assert not alice.closed


@pytest.mark.parametrize("request_id", [0, 5])
def test_what_is_no_request_ends_the_stream_of_a_stranger(request_id: int) -> None:
    script = Script()
    stranger = script.connect()
    assert not script.core.fault(stranger.session, wire.Undecodable("not valid", request_id), script.now)
    script.flush()
    assert [answer.id for answer in stranger.answers] == [0]
    assert stranger.closed


def test_what_has_no_id_ends_any_stream() -> None:
    script = Script()
    alice = script.open()
    assert not script.core.fault(alice.session, wire.Undecodable("not valid", 0), script.now)
    script.flush()
    assert alice.closed


def test_a_closed_session_is_not_looked_at_again() -> None:
    script = Script()
    alice = script.connect()
    script.hang_up(alice)
    script.now += 1e6
    assert not is_dropped(script, alice)
    assert alice.session.state is State.CLOSED
    script.say(script.open("bob"), send(2))
