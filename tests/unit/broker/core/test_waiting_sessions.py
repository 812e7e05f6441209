"""Reads that wait, with the rest of the core: sessions, sends, time and cancels."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

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


def test_cancel_of_what_is_not_there_is_done_already() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, wire.Cancel(3, 2))
    assert alice.answers == [wire.Done(3)]


def test_a_cancelled_read_that_is_in_the_database_does_not_wait_again() -> None:
    script = Script()
    alice = script.open()
    script.say(alice, receive(2, wait=60))
    script.work()
    script.core.wake_reads()
    batch = script.batch()
    script.say(alice, wire.Cancel(3, 2))
    script.complete(batch)
    assert alice.answers == [wire.Done(3), wire.Messages(2, [])]


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
