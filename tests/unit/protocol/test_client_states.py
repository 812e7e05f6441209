"""The states of a client's connection: what leads from one to another, and what may be sent in which."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from stafette.errors import Unavailable
from stafette.protocol import messages as wire
from stafette.protocol.client import ClientConnection, Event, Lost, NotAccepted, OutOfTurn, State
from tests.support.client_conversation import (
    DEADLINE,
    ask_several,
    closed_connection,
    decode,
    errors_of,
    failed,
    hello,
    leaving_connection,
    new_connection,
    open_connection,
    receive,
    sent,
    welcome,
)

IN_STATE: dict[State, Callable[[], ClientConnection]] = {
    State.HELLO: new_connection,
    State.OPEN: open_connection,
    State.LEAVING: leaving_connection,
    State.CLOSED: closed_connection,
}


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_reached(state: State) -> None:
    assert IN_STATE[state]().state is state


LEGAL = {
    (State.HELLO, Event.WELCOME): State.OPEN,
    (State.HELLO, Event.GOODBYE): State.LEAVING,
    (State.HELLO, Event.END): State.CLOSED,
    (State.OPEN, Event.GOODBYE): State.LEAVING,
    (State.OPEN, Event.END): State.CLOSED,
    (State.LEAVING, Event.WELCOME): State.LEAVING,
    (State.LEAVING, Event.GOODBYE): State.LEAVING,
    (State.LEAVING, Event.END): State.CLOSED,
    (State.CLOSED, Event.END): State.CLOSED,
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_a_transition_is_legal_or_refused(state: State, event: Event) -> None:
    connection = IN_STATE[state]()
    if follows := LEGAL.get((state, event)):
        connection._move(event)
        assert connection.state is follows
    else:
        with pytest.raises(OutOfTurn, match=f"{event.name.lower()} when {state.name.lower()}"):
            connection._move(event)
        assert connection.state is state


@pytest.mark.parametrize(
    ("state", "answer", "follows"),
    [
        (State.HELLO, welcome(1), State.OPEN),
        (State.HELLO, welcome(7), State.HELLO),
        (State.HELLO, wire.Goodbye(0, "leaving"), State.LEAVING),
        (State.HELLO, wire.Goodbye(1, "leaving"), State.CLOSED),
        (State.HELLO, failed(1), State.HELLO),
        (State.HELLO, failed(0), State.CLOSED),
        (State.OPEN, wire.Goodbye(0, "leaving"), State.CLOSED),
        (State.OPEN, wire.Done(7), State.OPEN),
        (State.OPEN, welcome(7), State.OPEN),
        (State.OPEN, failed(7), State.OPEN),
        (State.OPEN, failed(0), State.CLOSED),
        (State.LEAVING, wire.Goodbye(0, "leaving"), State.LEAVING),
        (State.LEAVING, wire.Done(7), State.LEAVING),
        (State.LEAVING, wire.Done(2), State.CLOSED),
        (State.LEAVING, failed(0), State.CLOSED),
        (State.CLOSED, wire.Done(2), State.CLOSED),
        (State.CLOSED, wire.Goodbye(0, "leaving"), State.CLOSED),
    ],
)
def test_what_an_answer_does_to_the_state(state: State, answer: wire.Answer, follows: State) -> None:
    connection = IN_STATE[state]()
    receive(connection, answer)
    assert connection.state is follows


@pytest.mark.parametrize(
    ("state", "request_", "refusal"),
    [
        (State.HELLO, hello(), None),
        (State.HELLO, wire.Echo(0), NotAccepted),
        (State.HELLO, wire.Bye(0), NotAccepted),
        (State.OPEN, hello(), NotAccepted),
        (State.OPEN, wire.Echo(0), None),
        (State.OPEN, wire.Bye(0), None),
        (State.LEAVING, hello(), NotAccepted),
        (State.LEAVING, wire.Echo(0), NotAccepted),
        (State.LEAVING, wire.Bye(0), None),
        (State.CLOSED, hello(), Lost),
        (State.CLOSED, wire.Echo(0), Lost),
        (State.CLOSED, wire.Bye(0), Lost),
    ],
)
def test_what_may_be_sent(state: State, request_: wire.Request, refusal: type[Unavailable] | None) -> None:
    connection = IN_STATE[state]()
    if refusal is None:
        assert decode(connection.request(request_, DEADLINE)) == [request_]
    else:
        with pytest.raises(refusal):
            connection.request(request_, DEADLINE)
        assert (request_.id, sent(connection)) == (0, [])


def test_the_hello_and_its_welcome() -> None:
    connection = ClientConnection(itertools.count(5))
    greeting = hello()
    assert decode(connection.request(greeting, DEADLINE)) == [greeting]
    assert greeting.id == 5
    outcomes = receive(connection, welcome(5))
    assert outcomes == [(5, welcome(5), len(wire.encode(welcome(5))))]
    assert connection.welcome == welcome(5)


def test_a_second_welcome_is_a_fault_of_the_broker() -> None:
    connection = open_connection()
    ids = ask_several(connection, 2)
    outcomes = receive(connection, welcome(ids[0]), wire.Done(ids[1]))
    assert errors_of(outcomes) == [(ids[0], "InternalError"), (ids[1], "InternalError")]
    assert "welcome when open" in str(connection.fault)


def test_a_broker_that_leaves_may_still_welcome() -> None:
    connection = new_connection()
    assert receive(connection, wire.Goodbye(0, "leaving")) == []
    [(request_id, outcome, _)] = receive(connection, welcome(1))
    assert (request_id, outcome) == (1, welcome(1))
    assert connection.welcome == welcome(1)
    assert connection.state is State.CLOSED
