"""What is stored can be read: the tables take nothing else.

Where somebody has dropped their constraints, a message that no client can be sent fails the one request that is due it,
and stays where it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from stafette.broker import native
from stafette.database.clients import Identity
from stafette.database.connect import Unreadable
from stafette.database.messages import LeaseRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import InternalError, StafetteError
from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from tests.support.brokers import Connect, StartBroker

TABLES = ("ready", "delayed", "leased", "dead")
BAD_HEADERS = [
    '{"n": 1}', '{"n": 1e23}', '{"n": 1e400}', '{"n": null}', '{"n": true}', '{"n": ["a"]}', '{"n": []}', '{"n": {}}',
    '{"text": "a", "n": {"a": "b"}}',
]  # fmt: skip
BAD_TIMES = ["infinity", "-infinity", "20000-01-01Z", "0044-03-15Z BC"]
QUEUES = 8


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


DROP = "ALTER TABLE stafette.ready DROP CONSTRAINT IF EXISTS ready_{0}"
CONSTRAINTS = ("headers_are_texts", "times_are_dates")


async def spoil(url: str, assignment: str, queue: str = "q3") -> None:
    """Drop the constraints by hand, and change what is in a queue."""
    async with connected(url) as connection, connection.transaction():
        for name in CONSTRAINTS:
            await connection.execute(DROP.format(name))
        await connection.execute(
            f"UPDATE stafette.ready AS r SET {assignment} FROM stafette.queues AS q"
            f" WHERE q.store_id = r.store_id AND q.name = '{queue}'"
        )


async def restore(url: str) -> None:
    """Correct what is wrong, as an operator would, and put the constraints back, which are those of another table."""
    async with connected(url) as connection, connection.transaction():
        await connection.execute("UPDATE stafette.ready SET headers = NULL, arrived_at = now()")
        for name in CONSTRAINTS:
            definition = await connection.fetchval(
                "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1", f"delayed_{name}"
            )
            await connection.execute(DROP.format(name))
            await connection.execute(f"ALTER TABLE stafette.ready ADD CONSTRAINT ready_{name} {definition}")


@pytest.fixture
async def constraints_back(any_database: str) -> AsyncIterator[None]:
    """Other tests use the same database."""
    yield
    await restore(any_database)


@pytest.fixture
async def alice(store: Store) -> Identity:
    """With one message in each of some queues."""
    identity = await store.clients.register("alice")
    for number in range(QUEUES):
        await store.queues.create(identity.id, f"q{number}")
    await store.messages.send(
        [SendRequest(identity.id, Draft((f"q{number}",), f"{number}".encode())) for number in range(QUEUES)]
    )
    return identity


@pytest.mark.parametrize("table", TABLES)
async def test_no_table_takes_what_a_client_cannot_be_sent(store: Store, any_database: str, table: str) -> None:
    more = {"delayed": ", due_at", "leased": ", token, holder_id, leased_until"}.get(table, "")
    values = {"delayed": ", now()", "leased": ", 1, 1, now()"}.get(table, "")
    owner = "store_id" if table in ("ready", "delayed") else "queue_id"
    insert = (
        f"INSERT INTO stafette.{table} (id, {owner}, receiver_id, sender_id, rank, deliveries, arrived_at, expires_at,"
        f" headers, body{more}) VALUES (1, 1, 0, 1, 5, 0, $1::text::timestamptz, $2::text::timestamptz,"
        f" $3::text::jsonb, ''{values})"
    )
    async with connected(any_database) as connection:
        await connection.execute(insert, "2026-11-19Z", None, '{"a": "b"}')
        for headers in [*BAD_HEADERS, "[]", "1", "null"]:
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(insert, "2026-11-19Z", None, headers)
        for time in BAD_TIMES:
            for times in ((time, None), ("2026-11-19Z", time)):
                with pytest.raises(asyncpg.CheckViolationError):
                    await connection.execute(insert, *times, None)
        for column in {"delayed": ["due_at"], "leased": ["leased_until"]}.get(table, []):
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(f"UPDATE stafette.{table} SET {column} = 'infinity'")


Read = Callable[[Store, list[ReadRequest]], Awaitable[list[Any]]]
READS: dict[str, Read] = {
    "receive": lambda store, asks: store.messages.receive(asks),
    "peek": lambda store, asks: store.messages.peek(asks),
    "lease": lambda store, asks: store.messages.lease([LeaseRequest(a.client, a.selection) for a in asks]),
}


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize(
    "assignment",
    [*(f"headers = '{headers}'" for headers in BAD_HEADERS), *(f"arrived_at = '{time}'" for time in BAD_TIMES)],
)
@pytest.mark.usefixtures("constraints_back")
async def test_one_request_gets_the_error_and_the_message_stays(
    store: Store, alice: Identity, any_database: str, caplog: pytest.LogCaptureFixture, kind: str, assignment: str
) -> None:
    await spoil(any_database, assignment)
    answers = await READS[kind](store, [ReadRequest(alice.id, Selection(f"q{number}")) for number in range(QUEUES)])
    assert [type(answer) for answer in answers] == [list] * 3 + [Unreadable] + [list] * 4
    assert all(len(answer) == 1 for answer in answers if isinstance(answer, list))
    assert "message 4 in queue q3 cannot be read" in answers[3].sentence
    assert answers[3].outcome == "not done"
    assert caplog.messages == [str(answers[3])]
    assert caplog.records[0].levelno == logging.ERROR
    assert store.messages.unreadable == 1
    assert (await store.queues.count("q3")).ready == 1
    await restore(any_database)
    [[message]] = await store.messages.receive([ReadRequest(alice.id, Selection("q3"))])  # type: ignore[misc]
    assert message.body == b"3"


@pytest.mark.parametrize(
    "selection", [Selection("q3", order="arrival"), Selection(sender="alice"), Selection(context=7)]
)
@pytest.mark.usefixtures("constraints_back")
async def test_the_same_for_reads_of_every_kind(
    store: Store, alice: Identity, any_database: str, selection: Selection
) -> None:
    await spoil(any_database, "headers = '{\"n\": 1}', context = 7, rank = 0")
    [error, others] = await store.messages.receive(
        [ReadRequest(alice.id, selection), ReadRequest(alice.id, Selection("q0"))]
    )
    assert isinstance(error, Unreadable)
    assert isinstance(others, list)
    with pytest.raises(InternalError, match="message 4 in queue q3 cannot be read"):
        await store.messages.browse("q3")


@pytest.mark.usefixtures("constraints_back")
async def test_what_else_a_request_would_have_got_stays_with_it(
    store: Store, alice: Identity, any_database: str
) -> None:
    await spoil(any_database, "headers = '{\"n\": 1}'")
    await store.messages.send([SendRequest(alice.id, Draft(("q3",), b"after")) for _ in range(3)])
    [error] = await store.messages.receive([ReadRequest(alice.id, Selection("q3", count=10))])
    assert isinstance(error, Unreadable)
    assert (await store.queues.count("q3")).ready == 4


async def test_clients_of_a_broker_get_their_answers_and_it_ends(
    brokers: StartBroker, connect: Connect, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, url = await brokers()
    clients = [await connect(f"c{number}", url) for number in range(QUEUES)]
    for number, client in enumerate(clients):
        await client.create_queue(f"q{number}")
        await client.send(f"q{number}", f"{number}")
    await spoil(database, "headers = '{\"n\": 1e23}'")
    try:
        answers = await asyncio.gather(
            *(client.receive(f"q{number}") for number, client in enumerate(clients)), return_exceptions=True
        )
        assert isinstance(answers[3], InternalError)
        bodies = [None if isinstance(answer, BaseException) or not answer else answer.body for answer in answers]
        assert bodies == [b"0", b"1", b"2", None, b"4", b"5", b"6", b"7"]
        assert (await clients[3].queue("q3")).messages == 1
        assert runtime.store.messages.unreadable == 1
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
            str(answers[3])
        ]
        await runtime.drain()
    finally:
        await restore(database)


async def test_an_answer_that_cannot_be_encoded_is_an_error_of_its_request_alone(
    brokers: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, url = await brokers()
    clients = [await connect(f"c{number}", url) for number in range(4)]
    await clients[0].create_queue("jobs")
    for number in range(4):
        await clients[0].send(f"@c{number}", f"{number}")

    def failing(answer: wire.Answer) -> bytes:
        if isinstance(answer, wire.Messages) and any(message.body == b"2" for message in answer.messages):
            raise OverflowError("can't serialize ints < -2**63 or > 2**64 - 1")
        return wire.encode(answer)

    monkeypatch.setattr(native, "encode", failing)
    answers = await asyncio.gather(
        *(client.receive(f"@c{number}") for number, client in enumerate(clients)), return_exceptions=True
    )
    assert [isinstance(answer, StafetteError) for answer in answers] == [False, False, True, False]
    assert isinstance(answers[2], InternalError)
    await clients[2].ping()
    assert len(runtime.core.sessions) == 4
    await runtime.drain()
