"""A client's connection without a socket: each request gets its one outcome, whatever the broker and the clock do."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from stafette.errors import AlreadyOnline, InternalError, MessageTooLarge, Unavailable
from stafette.protocol import messages as wire
from stafette.protocol.client import ClientConnection, Lost, NotAccepted, State
from stafette.protocol.frames import frame
from tests.support.client_conversation import (
    DEADLINE,
    JOBS,
    MAX_FRAME,
    MESSAGE,
    ask,
    ask_several,
    closed_connection,
    decode,
    errors_of,
    failed,
    leases,
    leaving_connection,
    new_connection,
    open_connection,
    receive,
    sent,
    stream,
    welcome,
)

# Requests and answers


def test_a_request_is_sent_once_with_the_next_id() -> None:
    connection = open_connection()
    first, second = wire.Echo(0, b"one"), wire.Echo(0, b"two")
    data = connection.request(first, DEADLINE) + connection.request(second, DEADLINE)
    assert (first.id, second.id) == (2, 3)
    assert decode(data) == [first, second]
    assert sent(connection) == []


def test_answers_come_in_any_order() -> None:
    connection = open_connection()
    ids = ask_several(connection, 3)
    answers = [wire.Echoed(number, b"%d" % number) for number in (ids[2], ids[0], ids[1])]
    assert [(answer.id, answer, len(wire.encode(answer))) for answer in answers] == receive(connection, *answers)
    assert receive(connection, *answers) == []


def whole(data: bytes) -> list[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize("trailing", [b"", b"\x00", b"\x00\x00\x00\x09half"])
@pytest.mark.parametrize("cut", [whole, byte_by_byte])
def test_answers_come_in_any_pieces(cut: Callable[[bytes], list[bytes]], trailing: bytes) -> None:
    connection = new_connection()
    answers: list[wire.Answer] = [welcome(1), wire.Done(2), failed(3), wire.Goodbye(4, "leaving")]
    outcomes = connection.receive_data(stream(answers[:1]))
    ask_several(connection, 4)
    for piece in cut(stream(answers[1:]) + trailing):
        outcomes += connection.receive_data(piece)
    assert errors_of(outcomes) == [(1, "Welcome"), (2, "Done"), (3, "Unavailable"), (4, "NotAccepted")]
    assert connection.state is State.LEAVING


def test_a_failure_is_the_error_it_reports() -> None:
    connection = open_connection()
    [number] = ask_several(connection, 1)
    [(request_id, error, size)] = receive(connection, failed(number, 106, "alice is online"))
    assert (request_id, type(error), str(error)) == (number, AlreadyOnline, "alice is online")
    assert size > 0
    assert connection.state is State.OPEN


def test_an_answer_to_nobody_changes_nothing() -> None:
    connection = open_connection()
    [number] = ask_several(connection, 1)
    assert receive(connection, wire.Done(99), failed(99), welcome(99), wire.Done(0)) == []
    assert connection.next_deadline() == DEADLINE
    assert errors_of(receive(connection, wire.Done(number))) == [(number, "Done")]


@pytest.mark.parametrize(
    "garbage",
    [
        frame(b"\xc1"),
        frame(b"\x91" * 5000),
        frame(wire.encode([2, 7])),
        frame(wire.encode([101, -1])),
        b"\xff\xff\xff\xff",
        frame(wire.encode([104, 2, [["\ud800".encode("utf-8", "surrogatepass")]]])),
    ],
)
def test_what_is_no_answer_ends_the_connection_after_the_answers_before(garbage: bytes) -> None:
    connection = open_connection()
    ids = ask_several(connection, 3)
    data = stream([leases(99, 7), wire.Done(ids[1])]) + garbage + stream([wire.Done(ids[0])])
    outcomes = errors_of(connection.receive_data(data))
    assert outcomes == [(ids[1], "Done"), (ids[0], "InternalError"), (ids[2], "InternalError")]
    assert isinstance(connection.fault, InternalError)
    assert (connection.state, sent(connection)) == (State.CLOSED, [])


# Too large a request


def test_a_request_that_is_too_large_does_not_leave() -> None:
    connection = open_connection()
    request = wire.Echo(0, bytes(MAX_FRAME))
    with pytest.raises(MessageTooLarge, match=f"takes at most {MAX_FRAME} at once"):
        connection.request(request, DEADLINE)
    assert request.id == 0
    assert sent(connection) == []
    assert connection.next_deadline() is None


def test_the_largest_request_leaves() -> None:
    connection = open_connection()
    largest = wire.Echo(0, bytes(MAX_FRAME - len(wire.encode(wire.Echo(2, bytes(100)))) + 100))
    assert decode(connection.request(largest, DEADLINE)) == [largest]
    assert len(wire.encode(largest)) == MAX_FRAME


def test_a_hello_may_have_any_size() -> None:
    connection = ClientConnection(itertools.count(1))
    large = wire.Hello(0, wire.VERSION, "a" * 1000)
    assert decode(connection.request(large, DEADLINE)) == [large]


def test_a_request_that_is_sent_again_keeps_its_id() -> None:
    connection = open_connection()
    read = wire.Receive(0, JOBS)
    number = ask(connection, read)
    connection.closed(None)
    read.again = True
    connection = open_connection()
    assert decode(connection.request(read, DEADLINE)) == [read]
    assert read.id == number


@pytest.mark.parametrize("end", [lambda c: receive(c, wire.Goodbye(0, "leaving")), ClientConnection.hang_up])
def test_nothing_is_given_back_where_the_broker_takes_nothing(end: Callable[[ClientConnection], object]) -> None:
    connection = open_connection()
    ask(connection, wire.Receive(0, JOBS, 60.0))
    end(connection)
    connection.give_back(leases(9, 7))
    receive(connection, leases(9, 7))
    assert sent(connection) == []


# Leases that nobody takes


def test_leases_for_a_reader_that_gave_up_are_given_back() -> None:
    connection = open_connection()
    late = ask(connection, wire.Lease(0, JOBS), deadline=1.0)
    other = ask(connection, wire.Echo(0))
    receive(connection, wire.Echoed(other, b""))
    assert errors_of(connection.expire(1.0)) == [(late, "TooLate")]
    assert receive(connection, leases(late, 7, 8)) == []
    assert sent(connection) == [wire.Nack(4, MESSAGE.id, 7), wire.Nack(5, MESSAGE.id, 8)]


def test_leases_whose_reader_is_cancelled_are_given_back_on_demand() -> None:
    connection = open_connection()
    number = ask(connection, wire.Lease(0, JOBS, 30.0, 60.0))
    [(_, answer, _)] = receive(connection, leases(number, 7))
    assert isinstance(answer, wire.Leases)
    connection.give_back(answer)
    assert sent(connection) == [wire.Nack(3, MESSAGE.id, 7)]
    assert receive(connection, wire.Done(3)) == []


# Deadlines


def test_the_next_deadline_is_the_earliest() -> None:
    connection = open_connection()
    assert connection.next_deadline() is None
    ids = [ask(connection, wire.Echo(0), deadline) for deadline in (5.0, 3.0, 4.0)]
    assert connection.next_deadline() == 3.0
    receive(connection, wire.Done(ids[1]))
    assert connection.next_deadline() == 4.0


def test_a_request_ends_at_its_deadline_and_not_before() -> None:
    connection = open_connection()
    early, late = ask(connection, wire.Echo(0), 3.0), ask(connection, wire.Echo(0), 4.0)
    receive(connection, wire.Done(99))
    assert connection.expire(2.999) == []
    [(request_id, error, size)] = connection.expire(3.0)
    assert (request_id, type(error).__name__, size) == (early, "TooLate", 0)
    assert "may or may not have taken effect" in str(error)
    assert (connection.state, connection.fault) == (State.OPEN, None)
    assert errors_of(receive(connection, wire.Done(early), wire.Done(late))) == [(late, "Done")]


def test_a_missing_answer_is_no_silence() -> None:
    connection = open_connection()
    missing, answered = ask_several(connection, 2, deadline=3.0)
    receive(connection, wire.Done(answered))
    assert errors_of(connection.expire(3.0)) == [(missing, "TooLate")]
    assert connection.state is State.OPEN


def test_a_part_of_an_answer_is_no_silence() -> None:
    connection = open_connection()
    [number] = ask_several(connection, 1, deadline=3.0)
    connection.receive_data(b"\x00")
    assert errors_of(connection.expire(3.0)) == [(number, "TooLate")]
    assert connection.state is State.OPEN


def test_silence_ends_the_connection() -> None:
    connection = open_connection()
    heard, silent = ask_several(connection, 1, 3.0), wire.Echo(0)
    receive(connection, wire.Done(99))
    overdue, others = ask(connection, silent, 3.0), ask_several(connection, 2, 9.0)
    outcomes = connection.expire(3.0)
    assert errors_of(outcomes) == [
        (heard[0], "TooLate"), (overdue, "TooLate"), (others[0], "Lost"), (others[1], "Lost")
    ]  # fmt: skip
    assert "does not answer" in str(connection.fault)
    assert (connection.state, connection.next_deadline()) == (State.CLOSED, None)


def test_a_hello_without_an_answer_ends_the_connection() -> None:
    connection = new_connection()
    assert errors_of(connection.expire(DEADLINE)) == [(1, "TooLate")]
    assert isinstance(connection.fault, Lost)


def test_nothing_expires_without_requests() -> None:
    for connection in (open_connection(), closed_connection()):
        state = connection.state
        assert connection.expire(1e9) == []
        assert (connection.state, connection.fault) == (state, None)


# Goodbye


def test_goodbye_lets_what_is_pending_finish() -> None:
    connection = open_connection()
    ids = ask_several(connection, 2)
    assert receive(connection, wire.Goodbye(0, "leaving")) == []
    assert connection.state is State.LEAVING
    assert errors_of(receive(connection, wire.Done(ids[1]))) == [(ids[1], "Done")]
    assert connection.state is State.LEAVING
    assert errors_of(receive(connection, wire.Done(ids[0]))) == [(ids[0], "Done")]
    assert (connection.state, connection.fault) == (State.CLOSED, None)


def test_goodbye_without_requests_closes_at_once() -> None:
    connection = open_connection()
    assert receive(connection, wire.Goodbye(0, "leaving")) == []
    assert (connection.state, connection.fault) == (State.CLOSED, None)


def test_goodbye_for_a_request_is_that_ones_outcome() -> None:
    connection = open_connection()
    ids = ask_several(connection, 2)
    [(request_id, error, _)] = receive(connection, wire.Goodbye(ids[0], "ask another broker"))
    assert (request_id, type(error), str(error)) == (ids[0], NotAccepted, "ask another broker")
    assert connection.state is State.LEAVING


def test_what_is_late_at_a_broker_that_leaves_does_not_keep_the_connection() -> None:
    connection = leaving_connection()
    ask(connection, wire.Bye(0), DEADLINE + 1)
    receive(connection, wire.Goodbye(0, "leaving"))
    assert errors_of(connection.expire(DEADLINE)) == [(2, "TooLate")]
    assert connection.state is State.LEAVING
    receive(connection, wire.Goodbye(0, "leaving"))
    assert errors_of(connection.expire(DEADLINE + 1)) == [(3, "TooLate")]
    assert (connection.state, connection.fault) == (State.CLOSED, None)


def test_leases_given_back_before_a_goodbye_still_leave() -> None:
    connection = open_connection()
    receive(connection, leases(99, 7), wire.Goodbye(0, "leaving"))
    assert connection.state is State.CLOSED
    assert sent(connection) == [wire.Nack(2, MESSAGE.id, 7)]


# The end


def test_a_refusal_before_the_welcome_is_the_hellos_outcome() -> None:
    connection = new_connection()
    [(request_id, error, _)] = receive(connection, failed(0, 106, "alice is online"))
    assert (request_id, type(error), str(error)) == (1, AlreadyOnline, "alice is online")
    assert isinstance(connection.fault, AlreadyOnline)


def test_a_refusal_after_the_welcome_is_a_loss() -> None:
    connection = open_connection()
    ids = ask_several(connection, 2)
    outcomes = receive(connection, wire.Done(ids[1]), failed(0), wire.Done(ids[0]), failed(0, 106, "another"))
    assert errors_of(outcomes) == [(ids[1], "Done"), (ids[0], "Lost")]
    assert str(connection.fault) == "the broker ended the connection: the database is away"


@pytest.mark.parametrize(
    ("end", "name", "text"),
    [
        (ClientConnection.hang_up, "HungUp", "has been closed"),
        (lambda connection: connection.closed(None), "Lost", "broke before the answer"),
        (lambda connection: connection.closed(OSError("reset")), "Lost", r"broke \(reset\) before the answer"),
    ],
)
def test_the_end_gives_each_request_its_own_error(
    end: Callable[[ClientConnection], list[tuple[int, Exception, int]]], name: str, text: str
) -> None:
    connection = open_connection()
    ids = ask_several(connection, 3)
    outcomes = end(connection)
    assert errors_of(outcomes) == [(number, name) for number in ids]  # type: ignore[arg-type]
    assert len({id(error) for _, error, _ in outcomes}) == 3
    for _, error, _ in outcomes:
        with pytest.raises(Unavailable, match=text):
            raise error
    assert (connection.state, connection.fault) == (State.CLOSED, None)
    assert end(connection) == []


@pytest.mark.parametrize("answer", [wire.Done(2), wire.Goodbye(0, "leaving"), failed(0), leases(99, 7)])
def test_what_comes_after_the_end_is_not_read(answer: wire.Answer) -> None:
    connection = open_connection()
    ask_several(connection, 1)
    connection.hang_up()
    assert receive(connection, answer) == []
    assert connection.receive_data(b"\xff" * 4) == []
    assert (connection.fault, sent(connection)) == (None, [])


def test_the_loss_of_a_connection_that_was_cut_off_is_no_news() -> None:
    connection = open_connection()
    ask_several(connection, 1)
    receive(connection, failed(0))
    fault = connection.fault
    assert connection.closed(OSError("reset")) == []
    assert connection.fault is fault


# Room


def open_with(max_in_flight: int, max_bytes: int) -> ClientConnection:
    connection = new_connection()
    limits = (10_000, max_in_flight, max_bytes)
    receive(connection, wire.Welcome(1, wire.VERSION, 1, "full", "north", *limits))
    return connection


def test_there_is_room_until_nine_tenths_of_the_requests_are_in_flight() -> None:
    connection = open_with(10, 10_000)
    pending = ask_several(connection, 9)
    assert not connection.has_room(wire.Echo(0))
    receive(connection, wire.Echoed(pending[0], b""))
    assert connection.has_room(wire.Echo(0))


def test_what_the_connection_sends_by_itself_needs_no_room() -> None:
    connection = open_with(2, 10_000)
    read = wire.Receive(0, JOBS, 60.0)
    connection.request(read, DEADLINE)
    assert not connection.has_room(wire.Echo(0))
    connection.give_back(leases(9, 7))
    assert [type(request) for request in sent(connection)] == [wire.Nack]
    connection.request(wire.Cancel(0, read.id), DEADLINE)
    connection.request(wire.Bye(0), DEADLINE)


def test_bytes_need_room_until_they_are_answered_or_given_up() -> None:
    connection = open_with(100, 1_000)
    first, second = ask(connection, wire.Echo(0, bytes(600))), ask(connection, wire.Echo(0, bytes(300)), deadline=5.0)
    assert connection.has_room(wire.Echo(0, bytes(100)))
    assert not connection.has_room(wire.Echo(0, bytes(101)))
    connection.expire(5.0)
    assert connection.is_open is False or connection.has_room(wire.Echo(0, bytes(400)))
    assert second != first


def test_what_is_larger_than_all_room_is_sent_at_once_to_be_refused() -> None:
    connection = open_with(100, 1_000)
    assert connection.has_room(wire.Echo(0, bytes(2_000)))
    first = ask(connection, wire.Echo(0, b"1"))
    assert connection.has_room(wire.Echo(0, bytes(2_000)))
    receive(connection, failed(first))
    assert connection.has_room(wire.Echo(0, bytes(2_000)))


def test_before_the_welcome_nothing_has_to_wait() -> None:
    assert new_connection().has_room(wire.Echo(0, bytes(2_000)))
