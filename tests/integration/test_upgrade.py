"""A database that an older Stafette left, restored from its dump: nothing of it is lost, and nothing old stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from stafette.database import schema
from stafette.database.clients import Claim
from stafette.database.console import Console
from stafette.database.messages import ExtendRequest, NackRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import AlreadyOnline, LeaseLost
from stafette.model import Draft, LeaseRef, Message, Selection
from tests.support.actors import ADMIN
from tests.support.catalogue import catalogue
from tests.support.databases import Databases

DATA = Path(__file__).parents[1] / "data"
DUMP = DATA / "version_5.sql"
DUMP_7 = DATA / "version_7.sql"
API = ("send", "send_to_all", "receive")


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


@asynccontextmanager
async def restored(databases: Databases, dump: Path) -> AsyncIterator[str]:
    url = await databases.make()
    await execute(databases.migrated, "DROP ROLE IF EXISTS old_app", "CREATE ROLE old_app")
    await execute(url, dump.read_text())
    yield url
    await databases.drop(url)
    await execute(databases.migrated, "DROP ROLE old_app")


@pytest.fixture
async def old_database(any_databases: Databases) -> AsyncIterator[str]:
    """The URL of the restored database, not yet migrated."""
    async with restored(any_databases, DUMP) as url:
        yield url


@pytest.fixture
async def upgraded(old_database: str) -> AsyncIterator[Store]:
    """The migrated database, opened as brokers do."""
    assert await schema.migrate(old_database) == schema.Change(5, schema.newest_version(), functions=True)
    async with await Store.open(old_database) as store:
        yield store


@pytest.fixture
async def database_7(any_databases: Databases) -> AsyncIterator[str]:
    """The same of version 7, with what nobody could read."""
    async with restored(any_databases, DUMP_7) as url:
        yield url


@pytest.fixture
async def upgraded_7(database_7: str) -> AsyncIterator[Store]:
    assert await schema.migrate(database_7) == schema.Change(7, schema.newest_version(), functions=True)
    async with await Store.open(database_7) as store:
        yield store


@pytest.mark.parametrize("dump", [DUMP, DUMP_7], ids=lambda dump: dump.stem)
async def test_the_schema_is_that_of_a_new_database_but_for_grants(any_databases: Databases, dump: Path) -> None:
    async with restored(any_databases, dump) as old_database:
        await same_schema(any_databases, old_database)


async def same_schema(any_databases: Databases, old_database: str) -> None:
    await schema.migrate(old_database)
    assert await grants(old_database) == {(name, "old_app") for name in API}
    await execute(old_database, "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA stafette FROM old_app")
    assert await comparable(old_database) == await comparable(any_databases.migrated)


async def comparable(url: str) -> list[tuple[str, ...]]:
    """The schema without the names of NOT NULL constraints, which restoring a dump gives out in another order."""
    return [row for row in await catalogue(url) if not row[2].startswith("NOT NULL")]


async def grants(url: str) -> set[tuple[str, str]]:
    """Which functions are granted to others than the owner, and to whom; PUBLIC is ''."""
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(
        "SELECT p.proname, CASE a.grantee WHEN 0 THEN '' ELSE pg_get_userbyid(a.grantee) END"
        " FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a"
        " WHERE p.pronamespace = 'stafette'::regnamespace AND a.grantee <> p.proowner"
    )
    await connection.close()
    return {tuple(row) for row in rows}


async def read(store: Store, client: str, queue: str) -> list[tuple[int, bytes]]:
    """All that a client gets from a queue, with its priority."""
    identity = await store.clients.register(client)
    [messages] = await store.messages.receive([ReadRequest(identity.id, Selection(queue=queue, count=100))])
    assert isinstance(messages, list)
    return [(message.priority, message.body) for message in messages]


async def test_ready_messages_are_received_as_they_were_sent(upgraded: Store) -> None:
    carol, alice = await upgraded.clients.get("carol"), await upgraded.clients.get("alice")
    [messages] = await upgraded.messages.peek([ReadRequest(alice.id, Selection(queue="plain"))])
    assert isinstance(messages, list)
    [urgent] = messages
    assert (urgent.headers, urgent.context, urgent.sender) == ({"kind": "sale", "naïve": "ja"}, 7, "alice")
    assert (carol.mode, [client.name for client in await upgraded.clients.all()]) == (
        "read-only",
        ["alice", "bob", "carol"],
    )
    everything = [(10, b"urgent"), (5, b"first"), (5, b"for alice"), (5, b"second"), (1, bytes(range(256)))]
    assert await read(upgraded, "alice", "plain") == everything
    assert await read(upgraded, "dave", "plain") == [(5, b"for dave")]
    assert await read(upgraded, "bob", "@bob") == [(1, bytes(range(256)))]


async def test_queues_keep_their_options(upgraded: Store) -> None:
    queue = await upgraded.queues.get("options")
    assert (queue.exclude_own, queue.max_body, queue.max_deliveries) == (True, 1000, 1)
    assert (queue.dead_letter, queue.creator, queue.messages) == ("dead letters", "alice", 1)
    assert await read(upgraded, "bob", "options") == []
    assert await read(upgraded, "alice", "options") == [(5, b"x" * 1000)]


async def test_leases_delays_dead_messages_and_keys_go_on(upgraded: Store) -> None:
    assert await upgraded.messages.ack([LeaseRef(2, 13, 3)]) == [None]
    assert await upgraded.maintenance.expire_leases(limit=10) == {"dying": 1}  # where it dies: one delivery was allowed
    assert await Console(upgraded.pool).redrive(ADMIN, "dying") == 3
    assert await read(upgraded, "alice", "dying") == [(9, b"dies too"), (5, b"dies"), (1, b"lease ran out")]
    await read(upgraded, "alice", "plain")
    assert await upgraded.maintenance.promote_delayed(limit=10) == {"plain": 1}
    assert await read(upgraded, "alice", "plain") == [(3, b"soon")]
    alice = (await upgraded.clients.get("alice")).id
    await upgraded.pool.fetch("UPDATE stafette.keys SET expires_at = now() + interval '1 hour'")  # the dump is old
    assert await upgraded.messages.send([SendRequest(alice, Draft(("plain",), b"second"), key="once")]) == [[6]]
    assert (await upgraded.queues.count("plain")).delayed == 1


async def test_operators_and_what_they_did_are_there(upgraded: Store) -> None:
    console = Console(upgraded.pool)
    assert await console.operator_secret("admin") == "scrypt$admin"
    assert await console.session(b"\x01\x02") == "admin"
    assert [(line.action, line.subject) for line in await console.audit.lines()] == [
        ("purge", "plain"),
        ("create queue", "by an operator"),
    ]
    assert (await console.message_counts()).ready == 8


async def test_what_operators_did_has_the_names_of_today(old_database: str) -> None:
    await execute(
        old_database,
        "INSERT INTO stafette.audit (role, address, action, subject, detail)"
        " VALUES ('admin', '::1', 'bury', 'plain', '')",
    )
    await schema.migrate(old_database)
    async with await Store.open(old_database) as store:
        assert (await Console(store.pool).audit.lines(limit=1))[0].action == "delete dead messages"


async def test_a_role_still_uses_the_sql_api(old_database: str) -> None:
    await schema.migrate(old_database)
    await execute(old_database, "SET ROLE old_app; SELECT stafette.send('alice', 'plain', 'new', priority => 10)")
    connection = await asyncpg.connect(old_database)
    await connection.execute("SET ROLE old_app")
    assert await connection.fetchval("SELECT body FROM stafette.receive('alice', 'plain')") == b"urgent"
    await connection.close()


# What was odd in version 7, in whichever state: each value is now the JSON text of what it was.
HUGE = "1" + "0" * 400
TEXTS = {
    "n": "1", "big": "1" + "0" * 23, "huge": HUGE, "null": "null", "yes": "true", "list": '["a"]',
    "nested": '{"a": {"b": 2}}', "text": "t",
}  # fmt: skip


async def received(store: Store, client: str, queue: str) -> dict[bytes, Message]:
    """All that a client gets from a queue, by body."""
    identity = await store.clients.register(client)
    [messages] = await store.messages.receive([ReadRequest(identity.id, Selection(queue=queue, count=100))])
    assert isinstance(messages, list)
    return {message.body: message for message in messages}


async def test_what_nobody_could_read_is_received(upgraded_7: Store) -> None:
    messages = await received(upgraded_7, "alice", "plain")
    assert set(messages) == {b"first", b"twice", b"once", b"forgotten", b"odd headers", b"lives for ever"}
    assert messages[b"odd headers"].headers == TEXTS
    assert messages[b"first"].headers == {"kind": "sale", "naïve": "ja"}
    assert await upgraded_7.maintenance.drop_expired(limit=10) == 0
    assert set(await received(upgraded_7, "dave", "plain")) == {b"for dave"}


async def test_messages_for_others_wait_for_them(upgraded_7: Store) -> None:
    bob = await upgraded_7.clients.get("bob")
    [plain, own] = await upgraded_7.messages.receive(
        [ReadRequest(bob.id, Selection(sender="alice", queue=queue, count=9)) for queue in ("plain", "@bob")]
    )
    assert isinstance(plain, list)
    assert isinstance(own, list)
    assert [message.body for message in plain if message.receiver == "bob"] == [b"for bob"]
    assert [message.body for message in own] == [b"twice"]


async def test_what_was_never_due_is_due_some_day(upgraded_7: Store, database_7: str) -> None:
    assert await upgraded_7.maintenance.promote_delayed(limit=10) == {"plain": 1}  # a minute after the dump
    page = await Console(upgraded_7.pool).messages("plain", state="delayed")
    [never] = page.messages
    assert (never.headers, never.due_at and never.due_at.year) == (TEXTS, 9000)
    await execute(database_7, "UPDATE stafette.delayed SET due_at = now()")
    assert await upgraded_7.maintenance.promote_delayed(limit=10) == {"plain": 1}
    assert (await received(upgraded_7, "alice", "plain"))[b"never due"].headers == TEXTS


async def test_leases_keep_their_tokens_and_their_holders(upgraded_7: Store) -> None:
    alice, bob = [(await upgraded_7.clients.get(name)).id for name in ("alice", "bob")]
    for_ever, odd, ran_out, negative, last = (
        LeaseRef(bob, 12, 1),
        *(LeaseRef(alice, 12 + n, 1 + n) for n in range(1, 5)),
    )
    assert [type(answer) for answer in await upgraded_7.messages.ack([LeaseRef(alice, 12, 1)])] == [LeaseLost]
    [extended] = await upgraded_7.messages.extend([ExtendRequest(alice, 13, 2, 60.0)])
    assert extended is None
    assert [type(answer) for answer in await upgraded_7.messages.ack([ran_out, negative])] == [LeaseLost] * 2
    assert await upgraded_7.maintenance.expire_leases(limit=10) == {"work": 2}
    assert await upgraded_7.messages.ack([for_ever]) == [None]
    assert await upgraded_7.messages.nack([NackRequest(odd.client, odd.message, odd.token)]) == ["work"]
    assert await upgraded_7.messages.nack([NackRequest(last.client, last.message, last.token)]) == ["dead letters"]
    messages = await received(upgraded_7, "alice", "work")
    assert set(messages) == {b"held with odd headers", b"lease ran out", b"lease that began in the past"}
    assert messages[b"held with odd headers"].headers == TEXTS
    [dead] = (await received(upgraded_7, "alice", "dead letters")).values()
    assert (dead.receiver, dead.headers) == ("alice", {"stafette-died-in": "options"})


async def test_the_dead_are_redriven_for_whom_they_were(upgraded_7: Store) -> None:
    console = Console(upgraded_7.pool)
    assert {
        message.headers and message.headers["n"] for message in (await console.messages("dying", state="dead")).messages
    } == {None, "1"}
    assert await console.redrive(ADMIN, "dying") == 3
    assert await upgraded_7.maintenance.drop_expired(limit=10) == 0
    messages = await received(upgraded_7, "alice", "dying")
    assert set(messages) == {b"died and expired", b"died with odd headers"}
    assert messages[b"died with odd headers"].headers == TEXTS
    bob = await upgraded_7.clients.get("bob")
    [[for_bob]] = await upgraded_7.messages.receive([ReadRequest(bob.id, Selection("dying"))])  # type: ignore[misc]
    assert for_bob.body == b"died for bob"


async def test_keys_go_on_until_their_time(upgraded_7: Store) -> None:
    alice = (await upgraded_7.clients.get("alice")).id
    [again, anew] = await upgraded_7.messages.send(
        [SendRequest(alice, Draft(("plain",), body), key=body.decode()) for body in (b"once", b"forgotten")]
    )
    assert again == [6]
    assert isinstance(anew, list)
    assert anew[0] > 19
    assert await upgraded_7.maintenance.forget_keys(limit=10) == 0


async def test_live_sessions_stay_live_and_nobody_can_continue_them(old_database: str) -> None:
    await execute(
        old_database,
        "INSERT INTO stafette.brokers (name, alive_until) VALUES ('old', now() + interval '1 hour')",
        "INSERT INTO stafette.sessions (client_id, broker_id, token)"
        " SELECT c.id, b.id, 4711 FROM stafette.clients AS c, stafette.brokers AS b"
        " WHERE c.name = 'carol' AND b.name = 'old'",
    )
    await schema.migrate(old_database)
    async with await Store.open(old_database) as store:
        carol = await store.clients.get("carol")
        assert carol.broker == "old"
        new = await store.brokers.join("new", seconds=1000)
        for session in (None, 4711):
            [answer] = await store.clients.take_sessions([Claim(carol.id, session=session)], new)
            assert isinstance(answer, AlreadyOnline)
        await store.clients.release_sessions([(carol.id, 4711)])
        assert (await store.clients.get("carol")).broker is None
