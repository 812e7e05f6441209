"""What other roles of the database can do to us: nothing, but for the three functions that an application is granted.

The tables of rights are made from the database's catalogue, so they have every function and table there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import asyncpg
import pytest

from stafette import errors
from stafette.database import schema
from stafette.database.brokers import Disconnect
from stafette.database.clients import Claim, Taken
from stafette.database.console import Console
from stafette.database.messages import LeaseRequest, NackRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, QueueOptions, Selection
from tests.support.actors import ADMIN

GRANTED = {"send", "send_to_all", "receive"}
"""What the documented grant of docs/sql-api.md lets an application execute."""

WITH_RIGHTS_OF_THE_OWNER = GRANTED | {"notify_readers"}
"""Functions that work with the rights of the owner, whoever calls them."""

PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")

MODES = (
    "ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE", "ACCESS EXCLUSIVE",
)  # fmt: skip

ADVISORY = [*range(5746655, 5746670), *range(5)]
"""Keys that our functions have used, and those near by."""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture(params=["app", "nobody"])
async def stranger(store: Store, any_database: str, request: pytest.FixtureRequest) -> AsyncIterator[Connection]:
    """A connection of a role with the documented grant, and of one with none."""
    role = request.param
    connection = await asyncpg.connect(any_database)
    await connection.execute(f"CREATE ROLE {role}")
    if role == "app":
        await connection.execute(
            "GRANT USAGE ON SCHEMA stafette TO app;"
            "GRANT EXECUTE ON FUNCTION stafette.send, stafette.send_to_all, stafette.receive TO app"
        )
    await connection.execute(f"SET ROLE {role}")
    yield connection
    await connection.execute(f"ROLLBACK; RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")
    await connection.close()


# Rights


async def test_strangers_execute_what_they_are_granted_and_nothing_else(store: Store, stranger: Connection) -> None:
    granted = GRANTED if await stranger.fetchval("SELECT current_user") == "app" else set()
    functions = await store.pool.fetch("""
        SELECT p.proname, format('SELECT stafette.%I(%s)', p.proname, (
            SELECT string_agg(format('NULL::%s.%I', t.typnamespace::regnamespace, t.typname), ', ' ORDER BY a.number)
            FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, number) JOIN pg_type AS t ON t.oid = a.type)) AS call
        FROM pg_proc AS p WHERE p.pronamespace = 'stafette'::regnamespace AND p.prorettype <> 'trigger'::regtype
    """)
    assert len(functions) == len(schema.function_files()) - 1  # that of the trigger
    allowed = set()
    for name, call in functions:
        try:
            await stranger.fetch(call)
        except asyncpg.InsufficientPrivilegeError:
            continue
        except asyncpg.PostgresError:
            pass  # what is called with NULL may fail, but it was called
        allowed.add(name)
    assert allowed == granted


async def test_only_these_functions_have_the_rights_of_the_owner(store: Store) -> None:
    rows = await store.pool.fetch(
        "SELECT proname, array_to_string(proconfig, ' ') AS settings FROM pg_proc"
        " WHERE pronamespace = 'stafette'::regnamespace AND prosecdef"
    )
    assert {name for name, _ in rows} == WITH_RIGHTS_OF_THE_OWNER
    assert {settings for _, settings in rows} == {"search_path=pg_catalog, pg_temp"}


async def test_no_function_is_granted_to_everybody(store: Store) -> None:
    granted = "SELECT proname FROM pg_proc WHERE pronamespace = 'stafette'::regnamespace AND"
    assert await store.pool.fetch(f"{granted} has_function_privilege('public', oid, 'EXECUTE')") == []


async def test_strangers_have_no_right_to_any_table_and_lock_none(store: Store, stranger: Connection) -> None:
    tables = await store.pool.fetch(
        "SELECT oid, relname, relkind::text AS kind FROM pg_class"
        " WHERE relnamespace = 'stafette'::regnamespace AND relkind IN ('r', 'v', 'S')"
    )
    assert {kind for _, _, kind in tables} == {"r", "v", "S"}
    for oid, name, kind in tables:
        check = "has_sequence_privilege" if kind == "S" else "has_table_privilege"
        privileges = ("USAGE", "SELECT", "UPDATE") if kind == "S" else PRIVILEGES
        for privilege in privileges:
            assert not await stranger.fetchval(f"SELECT {check}($1::oid, $2)", oid, privilege), (name, privilege)
        for mode in MODES if kind != "S" else ():
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await stranger.execute(f"BEGIN; LOCK TABLE stafette.{name} IN {mode} MODE")
            await stranger.execute("ROLLBACK")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stranger.execute("CREATE TABLE stafette.mine ()")


# Locks


async def test_nothing_of_ours_waits_for_a_lock_that_anybody_can_take(
    store: Store, stranger: Connection, any_database: str
) -> None:
    for key in ADVISORY:
        await stranger.execute("SELECT pg_advisory_lock($1)", key)
        for broker in range(1, 4):
            await stranger.execute("SELECT pg_advisory_lock($1, $2)", key, broker)
    async with asyncio.timeout(60):
        await everything(store)
        await schema.migrate(any_database)
    advisory = "SELECT proname FROM pg_proc WHERE pronamespace = 'stafette'::regnamespace AND prosrc ~ 'advisory'"
    assert await store.pool.fetch(advisory) == []


async def test_the_documented_role_of_brokers_can_do_it_all(store: Store, any_database: str) -> None:
    """That of docs/how-to/external-postgresql.md, which does not own the schema."""
    owner = await asyncpg.connect(any_database)
    await owner.execute("""
        CREATE ROLE broker LOGIN;
        GRANT USAGE ON SCHEMA stafette TO broker;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stafette TO broker;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA stafette TO broker;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA stafette TO broker
    """)
    try:
        async with await Store.open(f"{any_database}&options=-c%20role%3Dbroker") as as_broker:
            assert await as_broker.pool.value("SELECT current_user") == "broker"
            await everything(as_broker)
    finally:
        await owner.execute("DROP OWNED BY broker; DROP ROLE broker")
        await owner.close()


async def everything(store: Store) -> None:
    """Whatever takes a lock, once."""
    here, there = [await store.brokers.join(name, seconds=1000) for name in ("here", "there")]
    alice = await store.clients.register("alice")
    [taken] = await store.clients.take_sessions([Claim(alice.id, None, 7)], here)
    assert isinstance(taken, Taken)
    await store.queues.create(alice.id, "jobs", QueueOptions())
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"work"))] * 4)
    ask = ReadRequest(alice.id, Selection("jobs"), token=taken.token, session=7, request=1)
    [received] = await store.messages.receive([ask], broker=here)
    assert isinstance(received, list)
    lease = LeaseRequest(alice.id, Selection("jobs"), 30.0, token=taken.token, session=7, request=2)
    [leased] = await store.messages.lease([lease], broker=here)
    assert isinstance(leased, list)
    nack = NackRequest(alice.id, leased[0].message.id, leased[0].token)
    assert await store.messages.nack([nack]) == ["jobs"]
    [moved] = await store.clients.take_sessions([Claim(alice.id, None, 7)], there)
    assert isinstance(moved, Taken)
    assert await store.maintenance.count_all_messages(pause=0, force=True)
    await Console(store.pool).disconnect(ADMIN, "alice")
    assert await store.brokers.take_commands(there) == [Disconnect(alice.id, moved.token)]
    await store.clients.register("bob")
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"work", receiver="bob"))])
    carol = await store.clients.register("carol")
    assert await store.queues.purge(carol.id, "jobs") == 3  # by steps
    assert await store.queues.purge(alice.id, "jobs") == 1
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"work"))])
    assert await store.queues.purge(alice.id, "jobs") == 1
    await store.queues.delete(alice.id, "jobs")
    await store.clients.release_sessions([(alice.id, moved.token)], for_good=True)
    await store.clients.delete("alice", by=alice.id)


async def test_one_counts_while_others_go_on(store: Store, any_database: str) -> None:
    counting = await asyncpg.connect(any_database)
    async with counting.transaction():
        assert await counting.fetchval("SELECT stafette.count_all_messages(0)")
        assert not await store.maintenance.count_all_messages(pause=0, force=True)
    await counting.close()
    assert await store.maintenance.count_all_messages(pause=0, force=True)


async def test_a_dump_is_in_nobodys_way(store: Store, any_database: str) -> None:
    """It locks every table as long as it lasts, to be read."""
    dump = await asyncpg.connect(any_database)
    tables = await dump.fetchval(
        "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class"
        " WHERE relnamespace = 'stafette'::regnamespace AND relkind = 'r'"
    )
    async with asyncio.timeout(60), dump.transaction():
        await dump.execute(f"LOCK TABLE {tables} IN ACCESS SHARE MODE")
        await everything(store)
        assert await store.pool.fetch("SELECT * FROM stafette.catalog_holders()") == []
    await dump.close()


async def test_who_is_in_the_way_is_named(store: Store, any_database: str) -> None:
    alice = await store.clients.register("alice")
    await store.queues.create(alice.id, "jobs")
    application = await asyncpg.connect(any_database)
    async with application.transaction():
        await application.execute("SELECT stafette.send('alice', 'jobs', 'work')")
        with pytest.raises(errors.Unavailable, match=f"process {application.get_server_pid()}, "):
            await store.pool.value("SELECT stafette.purge($1, 'jobs')", alice.id)
    await application.close()
