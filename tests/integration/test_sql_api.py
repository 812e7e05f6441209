"""Sending and receiving in SQL, inside an application's own transaction, as a role that may do nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, Selection

MEBIBYTE_OF_HEADERS = "jsonb_build_object('a', repeat('x', 1048576))"


@pytest.fixture
async def application(store: Store, any_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of a role with the documented grant."""
    alice = await store.clients.register("alice")
    await store.clients.register("bob", secret="hash")
    await store.queues.create(alice.id, "jobs")
    await store.queues.create(alice.id, "audit")
    connection = await asyncpg.connect(any_database)
    await connection.execute("""
        CREATE ROLE app;
        GRANT USAGE ON SCHEMA stafette TO app;
        GRANT EXECUTE ON FUNCTION stafette.send, stafette.send_to_all, stafette.receive TO app;
        CREATE TABLE public.orders (id integer);
        GRANT ALL ON public.orders TO app;
        SET ROLE app;
    """)
    yield connection
    await connection.reset()
    await connection.execute("RESET ROLE; DROP OWNED BY app; DROP ROLE app; DROP TABLE public.orders")
    await connection.close()


async def bodies(connection: asyncpg.Connection[asyncpg.Record], **arguments: Any) -> list[bytes]:
    names = ", ".join(f"{name} => ${number}" for number, name in enumerate(arguments, 1))
    return [
        row["body"] for row in await connection.fetch(f"SELECT * FROM stafette.receive({names})", *arguments.values())
    ]


async def test_a_message_is_sent_exactly_when_the_transaction_commits(
    application: asyncpg.Connection[asyncpg.Record],
) -> None:
    transaction = application.transaction()
    await transaction.start()
    await application.execute("INSERT INTO orders VALUES (1)")
    await application.fetchval("SELECT stafette.send('alice', 'jobs', 'rolled back')")
    await transaction.rollback()
    async with application.transaction():
        await application.execute("INSERT INTO orders VALUES (2)")
        message_id = await application.fetchval("SELECT stafette.send('alice', 'jobs', 'committed', priority => 7)")
    assert message_id > 0
    assert await bodies(application, client="alice", queue="jobs", wanted=9) == [b"committed"]


async def test_a_received_message_is_back_when_the_transaction_rolls_back(
    application: asyncpg.Connection[asyncpg.Record],
) -> None:
    await application.execute("SELECT stafette.send_to_all('alice', ARRAY['jobs', 'audit'], 'both')")
    transaction = application.transaction()
    await transaction.start()
    assert await bodies(application, client="alice", queue="jobs") == [b"both"]
    assert await bodies(application, client="alice", queue="jobs") == []
    await transaction.rollback()
    assert await bodies(application, client="alice", queue="jobs") == [b"both"]
    assert await bodies(application, client="alice", queue="audit", by_arrival=True) == [b"both"]


async def test_what_a_transaction_has_received_is_nobody_elses_until_it_ends(
    application: asyncpg.Connection[asyncpg.Record], store: Store
) -> None:
    reader = await store.clients.register("reader")
    for body in ("first", "second", "third"):
        await application.execute("SELECT stafette.send('alice', 'jobs', $1::text::bytea)", body)
    transaction = application.transaction()
    await transaction.start()
    assert await bodies(application, client="alice", queue="jobs") == [b"first"]

    async def received(**fields: Any) -> list[bytes]:
        [answer] = await store.messages.receive([ReadRequest(reader.id, Selection("jobs", **fields))])
        assert isinstance(answer, list)
        return [message.body for message in answer]

    assert await received() == [b"second"]
    await transaction.rollback()
    assert await received(order="arrival", count=9) == [b"first", b"third"]


async def test_a_transaction_that_goes_on_gets_nothing_that_has_expired(
    application: asyncpg.Connection[asyncpg.Record], store: Store
) -> None:
    alice = await store.clients.get("alice")
    async with application.transaction():
        await application.fetch("SELECT now()")  # from here on its time stands still
        await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"fleeting", context=1, ttl=0.001))])
        while await store.messages.browse("jobs"):  # until a millisecond has passed
            pass
        for selection in (
            {"queue": "jobs"}, {"queue": "jobs", "by_arrival": True}, {"sender": "alice"}, {"context": 1},
        ):  # fmt: skip
            assert await bodies(application, client="alice", **selection) == []


async def test_the_times_of_a_message_count_from_its_send(
    application: asyncpg.Connection[asyncpg.Record], store: Store
) -> None:
    async with application.transaction():
        await application.fetch("SELECT now()")
        before = await store.pool.value("SELECT clock_timestamp()")
        await application.execute("SELECT stafette.send('alice', 'jobs', 'brief', ttl => 10)")
        await application.execute("SELECT stafette.send('alice', 'jobs', 'late', delay => 20, ttl => 30)")
    [brief] = await store.pool.fetch(
        "SELECT arrived_at - $1 AS age, expires_at - $1 AS ttl FROM stafette.ready", before
    )
    [late] = await store.pool.fetch(
        "SELECT arrived_at - $1 AS age, due_at - $1 AS delay, expires_at - $1 AS ttl FROM stafette.delayed", before
    )
    for row in (brief, late):
        assert row["age"] >= timedelta(0)
    assert brief["ttl"] >= timedelta(seconds=10)
    assert late["delay"] >= timedelta(seconds=20)
    assert late["ttl"] >= timedelta(seconds=30)


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("SELECT stafette.send('alice', 'nowhere', '')", "ST102"),
        ("SELECT stafette.send('nobody', 'jobs', '')", "ST105"),
        ("SELECT stafette.send('bob', 'jobs', '')", "ST108"),
        ("SELECT stafette.send('alice', 'jobs', '', priority => 70000)", "ST100"),
        ("SELECT stafette.send('alice', 'jobs', NULL)", "ST100"),
        ("SELECT stafette.send_to_all('alice', '{}', '')", "ST100"),
        ("SELECT stafette.send('alice', 'jobs', '', receiver => 'nobody')", "ST105"),
        ("SELECT stafette.send('alice', 'jobs', '', headers => '{\"n\": 1}')", "ST100"),
        ('SELECT stafette.send(\'alice\', \'jobs\', \'\', headers => \'{"a": "b", "n": {"a": "b"}}\')', "ST100"),
        ("SELECT stafette.send('alice', 'jobs', '', headers => '[\"a\"]')", "ST100"),
        ("SELECT stafette.send('alice', 'jobs', '', headers => 'null')", "ST100"),
        (f"SELECT stafette.send('alice', 'jobs', '', headers => {MEBIBYTE_OF_HEADERS})", "ST101"),
        ("SELECT stafette.send('alice', 'jobs', '', ttl => 1e12)", "ST100"),
        ("SELECT stafette.send('alice', 'jobs', '', ttl => 'NaN')", "ST100"),
        ("SELECT stafette.send('alice', 'jobs', '', delay => 'Infinity')", "ST100"),
        ("SELECT stafette.send('alice', 'jobs', '', delay => 'NaN')", "ST100"),
        ("SELECT * FROM stafette.receive('alice', 'nowhere')", "ST102"),
        ("SELECT * FROM stafette.receive('alice')", "ST100"),
        ("SELECT * FROM stafette.receive('bob', 'jobs')", "ST108"),
    ],
)
async def test_faults_are_raised_with_their_sqlstate(
    application: asyncpg.Connection[asyncpg.Record], call: str, sqlstate: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await application.fetch(call)
    assert caught.value.sqlstate == sqlstate
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(".")


async def test_headers_that_are_no_texts_are_refused_in_a_sentence(
    application: asyncpg.Connection[asyncpg.Record],
) -> None:
    with pytest.raises(asyncpg.PostgresError, match="header n is not a text; write its value as a string"):
        await application.fetch("""SELECT stafette.send('alice', 'jobs', '', headers => '{"n": 1}')""")


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
@pytest.mark.parametrize(
    "call",
    [
        "SELECT stafette.send('alice', 'jobs', 'late')",
        "SELECT stafette.send_to_all('alice', ARRAY['audit', 'jobs'], 'late')",
        "SELECT * FROM stafette.receive('alice', 'jobs')",
    ],
)
async def test_a_transaction_that_still_sees_what_is_deleted_is_refused(
    application: asyncpg.Connection[asyncpg.Record], store: Store, any_database: str, isolation: Any, call: str
) -> None:
    alice = await store.clients.get("alice")
    transaction = application.transaction(isolation=isolation)
    await transaction.start()
    await application.fetch("SELECT 1")  # now it sees this moment, for ever
    await store.queues.delete(alice.id, "jobs")
    with pytest.raises(asyncpg.PostgresError, match="ISOLATION LEVEL READ COMMITTED") as caught:
        await application.fetch(call)
    assert caught.value.sqlstate == "ST100"
    await transaction.rollback()
    assert (await store.monitoring.overview()).ready == 0


async def test_who_works_like_that_by_default_sends_in_a_transaction_of_its_own(
    application: asyncpg.Connection[asyncpg.Record],
) -> None:
    await application.execute("SET default_transaction_isolation = 'repeatable read'")
    await application.execute(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT stafette.send('alice', 'jobs', 'm'); COMMIT"
    )
    async with application.transaction(isolation="read_committed"):
        assert await bodies(application, client="alice", queue="jobs") == [b"m"]


async def test_brokers_do_not_depend_on_the_default_of_the_database(store: Store, any_database: str) -> None:
    async with await _with_default(any_database, "repeatable read") as other:
        for _ in range(2):
            assert await other.pool.value("SELECT current_setting('transaction_isolation')") == "read committed"


async def _with_default(url: str, isolation: str) -> Store:
    """A store of which the URL asks for another isolation, as the default of its database or role would."""
    connection = await asyncpg.connect(url)
    role = await connection.fetchval("SELECT current_user")
    await connection.execute(f"ALTER ROLE {role} SET default_transaction_isolation = '{isolation}'")
    try:
        return await Store.open(url)
    finally:
        await connection.execute(f"ALTER ROLE {role} RESET default_transaction_isolation")
        await connection.close()


@pytest.mark.parametrize(
    "forbidden",
    [
        "SELECT * FROM stafette.ready",
        "DELETE FROM stafette.queues",
        "SELECT stafette.purge(1, 'jobs')",
        "SELECT * FROM stafette.receive_batch(ARRAY[1], ARRAY['jobs'], NULL, NULL, ARRAY[false], ARRAY[1], NULL, 1000)",
        "SELECT stafette.set_secret('admin', '-', 'alice', NULL)",
    ],
)
async def test_the_role_may_do_nothing_else(application: asyncpg.Connection[asyncpg.Record], forbidden: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await application.fetch(forbidden)
