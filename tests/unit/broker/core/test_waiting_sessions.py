"""Reads that wait, with the rest of the core: sessions, sends, time and cancels."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stafette.broker.core.operation import GIVE_BACK
from stafette.errors import InternalError, NotAuthenticated, RequestTimeout, StafetteError, Unavailable
from stafette.model import Message, Selection
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ids, kinds, receive, send

MESSAGE = Message(1, "jobs", "bob", None, None, 5, datetime.fromtimestamp(0, UTC), 0, None, b"work")
GOT = wire.Messages(2, [MESSAGE])


def test_a_read_waits_without_holding_up_its_session() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60), send(3))
    script.work()
    assert [answer.id for answer in alice.answers] == [3]
    assert len(script.woken) == 1  # by the send behind it; it looked in vain
    assert (len(script.core.waiting), alice.session.in_flight) == (1, 1)


def test_a_send_wakes_a_read_which_gets_the_message() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2, wait=60))
    script.work()
    assert len(script.core.waiting) == 1
    script.say(bob, send(2))
    script.complete(script.batch())
    again = script.batch()
    assert ids(again) == [2]
    assert again.tickets == script.woken
    script.complete(again, GOT)
    assert alice.answers == [GOT]
    assert alice.session.in_flight == 0
    assert script.core.waiting.next_deadline() is None


def test_a_delayed_message_wakes_nobody_until_it_is_ready() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.interests.learn({"jobs": {9}})
    script.core.interests.take_notifications()
    script.say(bob, send(2, delay=30.0))
    script.complete(script.batch())
    assert script.batches() == []
    assert script.core.interests.notifications == set()
    script.core.arrived("jobs")
    assert script.core.interests.notifications == {(9, "jobs")}
    assert ids(script.batch()) == [2]


def test_a_message_to_a_personal_queue_wakes_its_owner() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2, "@alice", wait=60))
    script.work()
    script.say(bob, send(2, "@alice"))
    script.complete(script.batch())
    assert ids(script.batch()) == [2]


def test_a_read_that_gets_nothing_in_its_time_is_answered_with_nothing() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=5.0))
    script.say(alice, wire.Lease(3, Selection("jobs"), wait=10.0))
    script.work()
    script.tick(4.9)
    assert alice.answers == []
    script.tick(0.2)
    assert alice.take_answers() == [wire.Messages(2, [])]
    script.tick(10.0)
    assert alice.take_answers() == [wire.Leases(3, [])]
    assert alice.session.in_flight == 0


def test_a_read_whose_time_passes_in_the_database_is_answered_when_it_is_back() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=5.0))
    script.work()
    script.core.wake_reads()
    batch = script.batch()
    script.tick(6.0)
    assert alice.answers == []
    script.complete(batch)
    assert alice.answers == [wire.Messages(2, [])]


@pytest.mark.parametrize("wait", [None, 0.0, -1.0])
def test_a_read_that_may_not_wait_does_not(wait: float | None) -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=wait))
    script.work()
    assert kinds(alice.answers) == ["Messages"]


def test_a_message_that_comes_while_the_read_looks_is_not_missed() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2, wait=60))
    looks_too_early = script.batch()
    script.say(bob, send(2))
    stores = script.batch()
    script.complete(stores)
    script.complete(looks_too_early)
    assert alice.answers == []
    script.complete(script.batch(), GOT)
    assert alice.answers == [GOT]


def test_cancel_ends_a_wait() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.work()
    script.say(alice, wire.Cancel(3, 2))
    assert alice.answers == [wire.Messages(2, []), wire.Done(3)]
    assert alice.session.in_flight == 0


def test_what_an_answered_read_has_taken_goes_back_in_the_database() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2))
    script.complete(script.batch(), GOT)
    script.say(alice, wire.Cancel(3, 2), wire.Cancel(4, 1), receive(5))
    batch = script.batch()
    assert (batch.operation, ids(batch)) == (GIVE_BACK, [3])
    script.complete(batch)
    script.work()
    assert alice.answers == [GOT, wire.Done(3), wire.Done(4), wire.Messages(5, [])]


def test_a_cancelled_read_that_is_in_the_database_does_not_wait_again() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.wake_reads()
    batch = script.batch()
    script.say(alice, wire.Cancel(3, 2))
    script.complete(batch)
    script.work()
    assert alice.answers == [wire.Messages(2, []), wire.Done(3)]
    assert alice.session.in_flight == 0


def test_a_cancelled_read_of_a_session_without_a_number_is_answered_with_what_it_takes() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.wake_reads()
    reads = script.batch()
    script.say(alice, wire.Cancel(3, 2))
    script.complete(reads, GOT)
    script.work()
    assert alice.answers == [GOT, wire.Done(3)]  # nothing was kept of it, so it could not go back


def test_what_a_cancelled_read_takes_in_the_database_goes_back_before_the_cancel_is_done() -> None:
    script = Script()
    alice = script.open()
    alice.session.number = 4711
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.wake_reads()
    reads = script.batch()
    script.say(alice, wire.Cancel(3, 2), receive(4))
    assert script.batches() == []
    script.complete(reads, GOT)
    assert alice.answers == [wire.Messages(2, [])]
    gives_back = script.batch()
    assert (gives_back.operation, ids(gives_back)) == (GIVE_BACK, [3])
    assert gives_back.tickets[0].request == wire.Cancel(3, 2)
    script.complete(gives_back)
    script.work()
    assert alice.answers == [wire.Messages(2, []), wire.Done(3), wire.Messages(4, [])]
    assert script.core.admission.active == 0


def test_what_a_gone_client_has_given_up_goes_back_all_the_same() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.wake_reads()
    reads = script.batch()
    script.say(alice, wire.Cancel(3, 2))
    script.hang_up(alice)
    script.complete(reads, GOT)
    assert ids(script.batch()) == [3]


def test_a_read_of_a_session_that_has_moved_ends_its_connection() -> None:
    script = Script()
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2))
    script.say(bob, receive(2))
    script.complete(script.batch(), NotAuthenticated("this session continues elsewhere"), GOT)
    assert alice.aborted
    assert not bob.aborted
    assert bob.answers == [GOT]


def test_what_woke_a_read_whose_client_is_gone_wakes_the_next() -> None:
    script = Script()
    alice, carol, bob = script.open("alice"), script.open("carol"), script.open("bob")
    script.say(alice, receive(2, wait=60))
    script.say(carol, receive(2, wait=60))
    script.work()
    script.say(bob, send(2))
    script.complete(script.batch())
    script.hang_up(alice)
    assert [ticket.session for ticket in script.batch().tickets] == [carol.session]


@pytest.mark.parametrize(
    ("outcome", "aborted"),
    [
        (RequestTimeout("the database did not answer in time"), True),
        (Unavailable("the database is full", outcome="not done"), False),
        (InternalError("a defect"), False),
    ],
)
def test_who_does_not_know_what_its_read_has_taken_has_to_say_hello_first(
    outcome: StafetteError, aborted: bool
) -> None:
    script = Script()
    alice = script.open()
    alice.session.number = 4711
    script.say(alice, receive(2), wire.Cancel(3, 2))
    script.complete(script.batch(), outcome)
    assert alice.aborted is aborted
    assert kinds(alice.answers) == ([] if aborted else [type(outcome).__name__])
    assert [ids(batch) for batch in script.batches()] == ([] if aborted else [[3]])
    assert script.core.admission.bytes == 0
