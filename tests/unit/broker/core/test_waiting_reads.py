"""Reads that wait: who is woken by what, whose time is up, and the races between the database and what arrives."""

from __future__ import annotations

from typing import Any

import pytest

from stafette.broker.core.session import Session, Ticket
from stafette.broker.core.waiting_reads import MAX_STALE_DEADLINES, WaitingReads
from stafette.model import Selection
from stafette.protocol import messages as wire
from tests.support.core_script import ScriptedConnection, receive


def reader(name: str = "alice") -> Session:
    session = Session(ScriptedConnection())
    session.name = name
    return session


def parked(
    waiting: WaitingReads,
    queue: str | None = "jobs",
    *,
    session: Session | None = None,
    number: int = 1,
    deadline: float = 100.0,
    peek: bool = False,
    **selection: Any,
) -> Ticket:
    """A read that waits."""
    kind = wire.Peek if peek else wire.Receive
    ticket = Ticket(session or reader(), kind(number, Selection(queue, **selection), 60.0), 0.0)
    ticket.deadline = deadline
    waiting.park(ticket)
    return ticket


def arrive(
    waiting: WaitingReads,
    queue: str = "jobs",
    *,
    sender: str = "bob",
    to: str | None = None,
    context: int | None = None,
) -> list[Ticket]:
    return waiting.arrived(queue, sender=sender, receiver=to, context=context)


# Who is woken


def test_one_message_for_anyone_wakes_the_first_read_alone() -> None:
    waiting = WaitingReads()
    first, second = parked(waiting), parked(waiting)
    assert arrive(waiting) == [first]
    assert arrive(waiting) == [second]
    assert arrive(waiting) == []


def test_a_message_wakes_nobody_in_another_queue() -> None:
    waiting = WaitingReads()
    parked(waiting, "mail")
    assert arrive(waiting, "jobs") == []


def test_a_read_of_any_queue_is_woken_too() -> None:
    waiting = WaitingReads()
    anywhere, here = parked(waiting, None), parked(waiting, "jobs")
    assert arrive(waiting) == [here, anywhere]


@pytest.mark.parametrize(
    ("selection", "message", "woken"),
    [
        ({"sender": "bob"}, {"sender": "bob"}, True),
        ({"sender": "carol"}, {"sender": "bob"}, False),
        ({"context": 7}, {"context": 7}, True),
        ({"context": 7}, {"context": 8}, False),
        ({"context": 7}, {}, False),
        ({}, {"context": 7}, True),
        ({}, {"to": "alice"}, True),
        ({}, {"to": "carol"}, False),
    ],
)
def test_a_read_is_woken_by_what_it_selects(selection: Any, message: Any, woken: bool) -> None:
    waiting = WaitingReads()
    ticket = parked(waiting, **selection)
    assert arrive(waiting, **message) == ([ticket] if woken else [])
    assert len(waiting) == (0 if woken else 1)


def test_a_read_that_may_not_take_the_message_does_not_stand_in_for_one_that_does() -> None:
    waiting = WaitingReads()
    picky = parked(waiting, sender="bob")
    looks = parked(waiting, peek=True)
    own = parked(waiting, session=reader("bob"))  # the queue may keep its sender's messages from it
    takes, behind = parked(waiting), parked(waiting)
    assert arrive(waiting, sender="bob") == [picky, looks, own, takes]
    assert waiting.wake_all() == [behind]


def test_all_reads_of_the_receiver_are_woken() -> None:
    waiting = WaitingReads()
    alice = reader("alice")
    first, second = parked(waiting, session=alice, number=1), parked(waiting, session=alice, number=2)
    parked(waiting, session=reader("carol"))
    assert arrive(waiting, to="alice") == [first, second]


def test_all_reads_of_a_queue_or_of_all_are_woken_when_nobody_knows_for_whom_it_is() -> None:
    waiting = WaitingReads()
    jobs, mail, anywhere = parked(waiting, "jobs"), parked(waiting, "mail"), parked(waiting, None)
    assert set(waiting.wake_all(["jobs"])) == {jobs, anywhere}
    assert waiting.queues == {"mail"}
    assert waiting.wake_all() == [mail]


# Looked too early


def test_a_read_that_is_in_the_database_when_its_message_comes_tries_once_more() -> None:
    waiting = WaitingReads()
    ticket = Ticket(reader(), receive(1, wait=60), 0.0)
    waiting.begin_try(ticket)
    assert arrive(waiting) == []
    assert waiting.end_try(ticket)
    waiting.begin_try(ticket)
    assert not waiting.end_try(ticket)  # nothing has come since


def test_what_does_not_concern_it_does_not_make_it_try_again() -> None:
    waiting = WaitingReads()
    ticket = Ticket(reader(), receive(1, wait=60, sender="carol"), 0.0)
    waiting.begin_try(ticket)
    arrive(waiting, sender="bob")
    arrive(waiting, "mail", sender="carol")
    assert not waiting.end_try(ticket)
    assert waiting._trying == {}


def test_what_nobody_knows_more_of_concerns_every_read_in_the_database() -> None:
    waiting = WaitingReads()
    ticket = Ticket(reader(), receive(1, wait=60, sender="carol"), 0.0)
    waiting.begin_try(ticket)
    waiting.wake_all(["jobs"])
    assert waiting.end_try(ticket)


def test_a_woken_read_is_in_the_database_again() -> None:
    waiting = WaitingReads()
    ticket = parked(waiting)
    assert arrive(waiting) == [ticket]
    assert arrive(waiting) == []
    assert waiting.end_try(ticket)


# Time


def test_reads_expire_in_the_order_of_their_deadlines_each_once() -> None:
    waiting = WaitingReads()
    late, soon = parked(waiting, deadline=20.0), parked(waiting, deadline=10.0)
    assert waiting.next_deadline() == 10.0
    assert waiting.expire(9.9) == []
    assert waiting.expire(10.0) == [soon]
    assert waiting.next_deadline() == 20.0
    assert waiting.expire(100.0) == [late]
    assert waiting.expire(100.0) == []
    assert waiting.next_deadline() is None


def test_a_read_that_has_its_answer_does_not_expire() -> None:
    waiting = WaitingReads()
    ticket = parked(waiting, deadline=10.0)
    arrive(waiting)
    waiting.end_try(ticket)
    waiting.settle(ticket)
    assert waiting.next_deadline() is None
    assert waiting.expire(11.0) == []


def test_a_read_that_is_in_the_database_does_not_expire_there() -> None:
    waiting = WaitingReads()
    ticket = parked(waiting, deadline=10.0)
    arrive(waiting)
    assert waiting.expire(11.0) == []
    assert not waiting.end_try(ticket)


def test_a_read_that_was_woken_in_vain_keeps_its_deadline() -> None:
    waiting = WaitingReads()
    ticket = parked(waiting, deadline=10.0)
    arrive(waiting)
    waiting.end_try(ticket)
    waiting.park(ticket)
    assert waiting.next_deadline() == 10.0
    assert waiting.expire(10.0) == [ticket]


def test_deadlines_of_reads_that_have_ended_do_not_pile_up() -> None:
    waiting = WaitingReads()
    for number in range(10 * MAX_STALE_DEADLINES):
        ticket = parked(waiting, number=number, deadline=1e9)
        arrive(waiting)
        waiting.end_try(ticket)
        waiting.settle(ticket)
    assert len(waiting._deadlines) <= 2 * MAX_STALE_DEADLINES
    assert waiting._by_session == {}


# Cancelled, disconnected, gone


def test_a_cancelled_read_ends_its_wait_and_no_other_does() -> None:
    waiting = WaitingReads()
    alice = reader()
    first, second = parked(waiting, session=alice, number=1), parked(waiting, session=alice, number=2)
    other = parked(waiting, number=1)
    assert waiting.find(alice, 1) is first
    assert waiting.cancel(first, 5.0)
    assert waiting.find(alice, 1) is None
    assert waiting.find(alice, 3) is None
    assert waiting.wake_all() == [second, other]


def test_a_read_that_is_cancelled_while_it_is_in_the_database_has_no_time_left() -> None:
    waiting = WaitingReads()
    alice = reader()
    ticket = parked(waiting, session=alice)
    waiting.wake_all(["jobs"])
    assert waiting.find(alice, 1) is ticket
    assert not waiting.cancel(ticket, 5.0)  # its answer is on the way
    assert ticket.deadline == 5.0


def test_all_reads_of_a_session_are_cancelled_together() -> None:
    waiting = WaitingReads()
    alice = reader()
    first, second = parked(waiting, session=alice, number=1), parked(waiting, "mail", session=alice, number=2)
    parked(waiting, session=reader("bob"))
    assert waiting.cancel_session(alice, 5.0) == [first, second]
    assert len(waiting) == 1


def test_a_session_that_is_gone_is_forgotten_also_while_its_read_is_in_the_database() -> None:
    waiting = WaitingReads()
    alice = reader()
    trying = parked(waiting, session=alice, number=1)
    waiting.wake_all()
    parked(waiting, session=alice, number=2)
    waiting.forget(alice)
    assert len(waiting) == 0
    waiting.end_try(trying)
    waiting.settle(trying)
    assert waiting.wake_all() == []
    assert (waiting._by_session, waiting._parked, waiting._trying) == ({}, {}, {})
