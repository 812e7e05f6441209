"""A client's connection under test, and the broker's words to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime

from stafette.model import Leased, Message, Selection
from stafette.protocol import messages as wire
from stafette.protocol.client import ClientConnection, Outcome
from stafette.protocol.frames import FrameReader, frame

MESSAGE = Message(70, "jobs", "alice", None, None, 5, datetime(2020, 1, 1, tzinfo=UTC), 0, None, b"")
JOBS = Selection("jobs")
MAX_FRAME = 200
DEADLINE = 10.0


def hello() -> wire.Hello:
    return wire.Hello(0, wire.VERSION, "alice")


def welcome(request_id: int) -> wire.Welcome:
    return wire.Welcome(request_id, wire.VERSION, 1, "full", "north", MAX_FRAME, 10, 2**26)


def leases(request_id: int, *tokens: int) -> wire.Leases:
    return wire.Leases(request_id, [Leased(MESSAGE, token) for token in tokens])


def failed(request_id: int, code: int = 202, text: str = "the database is away") -> wire.Failed:
    return wire.Failed(request_id, code, "Unavailable", text, "again", "unknown")


def stream(answers: Iterable[wire.Answer]) -> bytes:
    return b"".join(frame(wire.encode(answer)) for answer in answers)


def receive(connection: ClientConnection, *answers: wire.Answer) -> list[Outcome]:
    """Let answers arrive in one piece."""
    return connection.receive_data(stream(answers))


def decode(data: bytes) -> list[wire.Request]:
    """What the broker reads."""
    return [wire.decode_request(payload) for payload in FrameReader(2**20).feed(data)]


def sent(connection: ClientConnection) -> list[wire.Request]:
    """What the connection sends by itself, as the broker reads it."""
    return decode(b"".join(connection.data_to_send()))


def new_connection() -> ClientConnection:
    """A connection whose hello, with id 1, is on its way."""
    connection = ClientConnection(itertools.count(1))
    connection.request(hello(), DEADLINE)
    return connection


def open_connection() -> ClientConnection:
    """A connection that takes requests; the first has id 2."""
    connection = new_connection()
    receive(connection, welcome(1))
    return connection


def ask(connection: ClientConnection, request: wire.Request, deadline: float = DEADLINE) -> int:
    connection.request(request, deadline)
    return request.id


def ask_several(connection: ClientConnection, count: int, deadline: float = DEADLINE) -> list[int]:
    return [ask(connection, wire.Echo(0), deadline) for _ in range(count)]


def errors_of(outcomes: list[Outcome]) -> list[tuple[int, str]]:
    """Ids and the names of errors; what came with an answer is an answer's name."""
    return [(request_id, type(outcome).__name__) for request_id, outcome, _ in outcomes]


def leaving_connection() -> ClientConnection:
    """A connection whose broker leaves; request 2 is pending."""
    connection = open_connection()
    ask_several(connection, 1)
    receive(connection, wire.Goodbye(0, "leaving"))
    return connection


def closed_connection() -> ClientConnection:
    connection = open_connection()
    connection.closed(None)
    return connection
