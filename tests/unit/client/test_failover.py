"""The rules of failover without waiting: which broker is next, how long to pause, what may be repeated."""

from __future__ import annotations

import pytest

from stafette.client.failover import (
    ATTEMPT_SECONDS,
    FIRST_PAUSE,
    MAX_PAUSE,
    BrokerRotation,
    Search,
    may_repeat,
    next_pause,
    search_deadline,
)
from stafette.errors import AlreadyOnline, Overloaded, ServerFull, StafetteError, Unavailable
from stafette.model import Selection
from stafette.protocol import messages as wire
from stafette.protocol.client import HungUp, Lost, NotAccepted, TooLate

NORTH, SOUTH, WEST = ("north", 1), ("south", 2), ("west", 3)
AWAY = Unavailable("cannot reach a broker")
ONLINE = AlreadyOnline("alice is online")
LATER = 1000.0


SEND, RECEIVE = wire.Send(0, []), wire.Receive(0, Selection("jobs"))


@pytest.mark.parametrize(
    ("error", "request_", "repeatable", "repeats"),
    [
        (Lost(""), SEND, True, True),
        (Lost(""), SEND, False, False),
        (NotAccepted(""), SEND, False, True),
        (Unavailable(""), SEND, True, False),
        (Lost(""), RECEIVE, False, True),
        (NotAccepted(""), RECEIVE, False, True),
        (Unavailable("the database broke"), RECEIVE, False, True),
        (Unavailable("", outcome="not done"), RECEIVE, False, False),
        (Overloaded(""), RECEIVE, False, False),
        (TooLate(""), RECEIVE, False, False),
        (HungUp(""), RECEIVE, False, False),
    ],
)
def test_what_may_be_repeated_after_which_loss(
    error: StafetteError, request_: wire.Request, repeatable: bool, repeats: bool
) -> None:
    assert may_repeat(error, request_, repeatable=repeatable) is repeats


def test_pauses_double_up_to_the_longest() -> None:
    pauses = [0.0]
    while pauses[-1] < MAX_PAUSE:
        pauses.append(next_pause(pauses[-1]))
    assert pauses == [0.0, FIRST_PAUSE, 0.1, 0.2, 0.4, 0.8, MAX_PAUSE]
    assert next_pause(MAX_PAUSE) == MAX_PAUSE


@pytest.mark.parametrize(
    ("wait", "until"),
    [(0.0, 130.0), (3600.0, 130.0)],
)
def test_a_broker_is_sought_no_longer_however_long_a_read_may_wait(wait: float, until: float) -> None:
    assert search_deadline(100.0, 30.0, 100.0 + wait + 30.0) == until


def test_a_broker_is_sought_until_the_deadline_at_most() -> None:
    assert search_deadline(125.0, 30.0, 130.0) == 130.0


def test_brokers_take_turns() -> None:
    rotation, turns = BrokerRotation((NORTH, SOUTH, WEST)), []
    for _ in range(4):
        turns.append(rotation.broker)
        rotation.advance()
    assert turns == [NORTH, SOUTH, WEST, NORTH]


def test_a_failed_broker_is_followed_by_the_next() -> None:
    rotation = BrokerRotation((NORTH, SOUTH))
    Search(rotation, LATER, None).pause_after(AWAY, 0.0)
    assert rotation.broker == SOUTH
    Search(rotation, LATER, None).pause_after(AWAY, 0.0)
    assert rotation.broker == NORTH


@pytest.mark.parametrize(
    ("brokers", "deadline", "attempt"),
    [
        ((NORTH,), 130.0, 130.0),
        ((NORTH, SOUTH), 104.0, 102.0),
        ((NORTH, SOUTH), 130.0, 100.0 + ATTEMPT_SECONDS),
    ],
)
def test_each_of_several_brokers_gets_its_share_of_the_time(
    brokers: tuple[tuple[str, int], ...], deadline: float, attempt: float
) -> None:
    assert BrokerRotation(brokers).attempt_deadline(100.0, deadline) == attempt


def pauses(search: Search, *errors: StafetteError, now: float = 0.0) -> list[float | None]:
    return [search.pause_after(error, now) for error in errors]


def test_a_search_pauses_only_between_rounds() -> None:
    search = Search(BrokerRotation((NORTH, SOUTH)), LATER, None)
    assert pauses(search, *[AWAY, ServerFull("full")] * 3) == [0.0, 0.05, 0.0, 0.1, 0.0, 0.2]


def test_a_search_ends_when_the_pause_would_reach_the_deadline() -> None:
    rotation = BrokerRotation((NORTH, SOUTH))
    assert pauses(Search(rotation, FIRST_PAUSE, None), AWAY, AWAY) == [0.0, None]
    assert pauses(Search(rotation, FIRST_PAUSE + 0.001, None), AWAY, AWAY) == [0.0, FIRST_PAUSE]


def test_a_search_of_one_round_tries_each_broker_once() -> None:
    assert pauses(Search(BrokerRotation((NORTH, SOUTH, WEST)), LATER, 1), *[AWAY] * 3) == [0.0, 0.0, None]


def test_who_is_online_elsewhere_is_refused_at_once() -> None:
    assert pauses(Search(BrokerRotation((NORTH, SOUTH)), LATER, None), ONLINE) == [None]


def test_who_may_be_online_itself_tries_on() -> None:
    welcomed = BrokerRotation((NORTH,))
    welcomed.on_welcome()
    assert pauses(Search(welcomed, LATER, 1), ONLINE, ONLINE) == [0.05, 0.1]
    assert pauses(Search(welcomed, LATER, 1), AWAY) == [None]


def test_a_lost_hello_may_have_opened_a_session() -> None:
    lost = Search(BrokerRotation((NORTH, SOUTH)), LATER, 2)
    assert pauses(lost, Lost("no answer to hello"), ONLINE, ONLINE) == [0.0, 0.05, 0.0]
    away = Search(BrokerRotation((NORTH, SOUTH)), LATER, 2)
    assert pauses(away, AWAY, ONLINE) == [0.0, None]
