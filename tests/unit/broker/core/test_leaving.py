"""How sessions end: by bye, by deletion, by an operator, by a drain, by the database, or without a word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stafette.broker.core.broker import Broker
from stafette.broker.core.session import State
from stafette.errors import Unavailable
from stafette.protocol import messages as wire
from tests.support.core_script import Script, kinds, receive, send

TOKEN = 1
"""Of the session that a script opens first."""


def test_bye_is_done_after_what_came_before_and_nothing_is_after_it() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, send(2), wire.Bye(3), send(4))
    script.work()
    assert kinds(alice.answers) == ["Sent", "Done", "NotAuthenticated"]
    assert alice.closed
    assert script.core.sessions == {}
    script.say(alice, send(5))
    assert kinds(alice.answers[3:]) == ["NotAuthenticated"]
    script.hang_up(alice)
    assert script.released == []  # bye has done that
    assert script.core.admission.active == 0


def test_a_bye_that_failed_does_not_end_the_session() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, wire.Bye(2))
    script.complete(script.batch(), Unavailable("no database"))
    assert not alice.closed
    assert alice.session.state is State.OPEN


def test_who_deletes_itself_has_left_and_who_deletes_another_has_not() -> None:
    script = Script()
    alice = script.open("alice")
    script.say(alice, wire.DeleteClient(2, "bob"))
    script.work()
    assert not alice.closed
    script.say(alice, wire.DeleteClient(3, "alice"))
    script.work()
    assert alice.closed


def test_who_hangs_up_frees_its_name() -> None:
    script = Script()
    alice = script.open("alice", client=7)
    script.say(alice, receive(2, wait=60))
    script.work()
    script.hang_up(alice)
    assert script.released == [(7, 1)]
    assert (len(script.core.waiting), script.core.connected) == (0, set())


def test_an_answer_may_come_after_its_client_is_gone() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, send(2), wire.ListQueues(3))
    batch = script.batch()
    script.hang_up(alice)
    script.complete(batch)
    assert script.batches() == []
    assert script.core.admission.active == script.core.dispatcher.outstanding == 0


def test_an_operator_ends_a_session_which_gets_its_answers() -> None:
    script = Script()
    alice = script.open("alice", client=7)
    script.say(alice, receive(2, wait=60), send(3), wire.ListQueues(4))
    batches = script.batches()
    assert script.core.disconnect(7, TOKEN, script.now)
    script.flush()
    assert ["operator" in reason for reason in alice.goodbyes] == [True]
    for batch in batches:
        script.complete(batch)
    script.work()
    script.say(alice, wire.Echo(5, b""))
    script.say(alice, wire.Bye(6))
    script.work()
    answers = {answer.id: kinds([answer])[0] for answer in alice.answers}
    assert answers == {2: "Goodbye", 3: "Sent", 4: "Queues", 5: "Goodbye", 6: "Done"}
    assert alice.closed


def test_a_read_that_waits_is_sent_elsewhere_by_an_operator() -> None:
    script = Script()
    alice, bob = script.open("alice", client=7), script.open("bob")
    script.say(alice, receive(2, wait=60))
    script.say(bob, receive(2, wait=60))
    script.work()
    assert script.core.disconnect(7, TOKEN, script.now)
    script.flush()
    assert kinds(alice.answers) == ["Goodbye"]
    assert bob.answers == []


def test_who_is_not_here_is_not_disconnected_and_nobody_twice() -> None:
    script = Script()
    script.open("alice", client=7)
    assert not script.core.disconnect(8, TOKEN, script.now)
    assert not script.core.disconnect(7, TOKEN + 1, script.now)  # an earlier session of the client
    assert script.core.disconnect(7, TOKEN, script.now)
    assert not script.core.disconnect(7, TOKEN, script.now)


def test_who_was_disconnected_may_come_back_and_the_old_session_still_gets_its_answers() -> None:
    script = Script()
    old = script.open("alice", client=7)
    script.say(old, send(2))
    batch = script.batch()
    script.core.disconnect(7, TOKEN, script.now)
    new = script.open("alice", client=7)
    script.complete(batch)
    assert not old.aborted
    assert kinds(old.answers) == ["Sent"]
    script.hang_up(old)
    assert script.core.sessions == {7: new.session}


def test_a_drain_answers_what_was_accepted_and_refuses_what_comes_after() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, send(2), wire.ListQueues(3))
    script.say(bob, receive(2, wait=60))
    batches = script.batches()
    script.core.drain(script.now)
    script.flush()
    assert len(alice.goodbyes) == len(bob.goodbyes) == 1
    assert not script.core.drained
    for batch in batches:
        script.complete(batch)
    script.work()
    assert script.core.drained
    assert kinds(alice.take_answers()) == ["Sent", "Queues"]
    assert kinds(bob.take_answers()) == ["Goodbye"]
    script.say(alice, send(9))
    assert kinds(alice.answers) == ["Goodbye"]
    assert script.core.admission.refusals == {"Goodbye": 1}


def test_a_drain_ends_the_waits_of_reads() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.drain(script.now)
    script.flush()
    assert kinds(alice.answers) == ["Goodbye"]
    assert script.core.drained


@pytest.mark.parametrize("leave", [lambda core: core.drain(1000.0), lambda core: core.disconnect(7, TOKEN, 1000.0)])
def test_what_was_held_back_from_a_slow_reader_is_not_executed_when_it_has_to_leave(
    leave: Callable[[Broker], object],
) -> None:
    script = Script()
    alice = script.open(client=7)
    script.core.pause_writing(alice.session, 100, script.now)
    script.say(alice, receive(2), send(3))
    leave(script.core)
    assert script.batches() == []
    assert [(type(answer), answer.id) for answer in alice.answers] == [(wire.Goodbye, 2), (wire.Goodbye, 3)]
    assert script.core.admission.active == 0


def test_a_drain_after_an_operator_ended_a_session_is_no_fault() -> None:
    script = Script()
    alice = script.open("alice", client=7)
    script.core.disconnect(7, TOKEN, script.now)
    script.core.drain(script.now)
    script.flush()
    assert alice.session.state is State.LEAVING


def test_clients_whose_name_another_broker_has_are_evicted() -> None:
    script = Script()
    kept, taken, gone = (script.open(name, client=number) for number, name in enumerate(("a", "b", "c")))
    tokens = {0: kept.session.token, 1: taken.session.token + 100}
    assert script.core.evict(list(script.core.sessions.values()), tokens) == [taken.session, gone.session]
    script.flush()
    assert [connection.aborted for connection in (kept, taken, gone)] == [False, True, True]


def test_nothing_is_expected_of_a_client_that_did_not_wait_for_its_bye() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, wire.Bye(2))
    batch = script.batch()
    script.hang_up(alice)
    script.complete(batch)
    assert alice.session not in script.core.idle_timeouts
