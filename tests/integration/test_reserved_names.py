"""The name of the web console is nobody else's: not by being first, and not by having had it before the upgrade."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from stafette import errors
from stafette.broker.secrets import hash_secret
from stafette.database import schema
from stafette.database.clients import RESERVED_NAMES
from stafette.database.console import Console
from stafette.database.messages import ReadRequest
from stafette.database.store import Store
from stafette.model import Selection
from stafette.web.link import NAME, BrokerLink
from tests.support.brokers import Connect, StartBroker
from tests.support.databases import Databases

REFUSAL = "the name console is the web console's; choose another"


async def test_both_sides_reserve_the_same_names(store: Store) -> None:
    assert frozenset({NAME}) == RESERVED_NAMES
    sql = "SELECT n, stafette.is_reserved(n) FROM unnest($1::text[]) AS n"
    names = [*RESERVED_NAMES, "Console", "console-1", "former-console", "alice"]
    assert {name for name, reserved in await store.pool.fetch(sql, names) if reserved} == RESERVED_NAMES


@pytest.mark.parametrize("secret", [None, "guess"])
async def test_a_client_cannot_be_the_console(
    brokers: StartBroker, connect: Connect, tmp_path: Path, secret: str | None
) -> None:
    runtime, url = await brokers()
    with pytest.raises(errors.NotAuthenticated) as first:
        await connect(NAME, url, secret=secret)
    assert str(first.value) == REFUSAL
    assert await runtime.store.clients.all() == []
    link = BrokerLink(url, Console(runtime.store.pool), tmp_path)
    console = await link.client()
    assert console.name == NAME
    with pytest.raises(errors.NotAuthenticated) as second:
        await connect(NAME, url, secret=secret)
    assert str(second.value) == REFUSAL
    assert await console.ping() >= 0
    await link.close()


async def test_two_consoles_work_side_by_side_and_each_comes_back(brokers: StartBroker, tmp_path: Path) -> None:
    runtime, url = await brokers()
    database = Console(runtime.store.pool)
    first, second = (BrokerLink(url, database, tmp_path / name) for name in ("first", "second"))
    names = [(await link.client()).name for link in (first, second)]
    assert names[0] == NAME
    assert names[1].startswith(f"{NAME}-")
    await first.close()
    assert (await first.client()).name == NAME  # with the secret that it had
    await first.close()
    await second.close()
    assert (await second.client()).name == NAME  # nobody uses it now
    await second.close()


async def test_the_console_works_beside_a_stranger_who_had_its_name_with_a_secret(
    brokers: StartBroker, connect: Connect, tmp_path: Path, database: str
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url, secret="secret")
    for table, name in (("clients", "console"), ("queues", "@console")):  # as before the upgrade
        await runtime.store.pool.fetch(f"UPDATE stafette.{table} SET name = $1 WHERE name LIKE '%alice'", name)
    link = BrokerLink(url, Console(runtime.store.pool), tmp_path)
    client = await link.client()
    assert client.name != NAME
    await client.create_queue("jobs")
    await client.send("jobs", b"work")
    await link.close()
    await alice.close()
    assert (await link.client()).name == NAME  # the stranger has gone
    await link.close()
    with pytest.raises(errors.NotAuthenticated, match=REFUSAL):
        await connect(NAME, url, secret="secret")


# Upgrades


@pytest.fixture
async def before(any_databases: Databases) -> AsyncIterator[str]:
    """The URL of a database of the version before names were reserved, in which alice has queues and messages."""
    url = await any_databases.make()
    await schema.migrate(url, to=15)
    connection = await asyncpg.connect(url)
    await connection.execute("""
        INSERT INTO stafette.clients (name, registered_at, last_seen_at)
        VALUES ('alice', now(), now()), ('console', now(), now()), ('former-console', now(), now());
        INSERT INTO stafette.queues (name, creator_id, owner_id)
        SELECT '@' || name, id, id FROM stafette.clients;
        INSERT INTO stafette.queues (name, creator_id) SELECT 'jobs', id FROM stafette.clients WHERE name = 'alice';
        INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)
        SELECT nextval('stafette.message_id'), q.store_id, c.id, a.id, 5, 0, now(), convert_to(q.name, 'UTF8')
        FROM stafette.queues AS q, stafette.clients AS c, stafette.clients AS a
        WHERE q.name IN ('jobs', '@console') AND c.name = 'console' AND a.name = 'alice'
    """)
    await connection.close()
    yield url
    await any_databases.drop(url)


async def bodies(store: Store, client: int, queue: str) -> list[bytes]:
    [answer] = await store.messages.receive([ReadRequest(client, Selection(queue, count=10))])
    assert isinstance(answer, list), answer
    return [message.body for message in answer]


async def test_who_had_the_name_without_a_secret_is_renamed_and_keeps_all(before: str) -> None:
    await schema.migrate(before)
    async with await Store.open(before) as store:
        former = await store.clients.get("former-console-2")  # the first was taken
        assert (await store.queues.personal("former-console-2")).name == "@former-console-2"
        assert await bodies(store, former.id, "jobs") == [b"jobs"]
        assert await bodies(store, former.id, "@former-console-2") == [b"@console"]
        await Console(store.pool).claim_name(hash_secret("of the console"))
        console = await store.clients.get(NAME)
        assert console.id != former.id
        assert (await store.queues.personal(NAME)).messages == 0


async def test_who_had_the_name_with_a_secret_is_taken_to_be_the_console(before: str) -> None:
    connection = await asyncpg.connect(before)
    await connection.execute("UPDATE stafette.clients SET secret = 'hash', mode = 'read-only' WHERE name = 'console'")
    await connection.close()
    await schema.migrate(before)
    async with await Store.open(before) as store:
        old = await store.clients.get(NAME)
        new_hash = hash_secret("of the console")
        assert await Console(store.pool).claim_name(new_hash) == new_hash
        identity = await store.clients.register(NAME)
        assert (identity.id, identity.mode, identity.secret) == (old.id, "full", new_hash)
        assert await bodies(store, old.id, "@console") == [b"@console"]
