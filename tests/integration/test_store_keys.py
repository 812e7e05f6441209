"""Keys of sends: how long they count, and that they do while they are answered."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import msgspec
import pytest

from stafette.broker.server import BrokerSettings, running
from stafette.database.clients import Identity
from stafette.database.messages import SendRequest
from stafette.database.store import Store
from stafette.errors import ClientNotFound, InternalError, KeyConflict, MessageTooLarge, QueueNotFound
from stafette.model import Draft, QueueOptions
from tests.support.brokers import Connect

GATE = 4711
"""An advisory lock on which a send waits in the middle."""


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.clients.register("alice")
    await store.queues.create(identity.id, "jobs")
    return identity


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def lifetime(store: Store) -> timedelta:
    """How long the key counts that was stored last."""
    left: timedelta = await store.pool.value("SELECT max(expires_at) - now() FROM stafette.keys")
    return timedelta(minutes=round(left / timedelta(minutes=1)))


def keyed(alice: Identity, body: bytes = b"once", key: str = "k") -> SendRequest:
    return SendRequest(alice.id, Draft(("jobs",), body), key)


async def test_a_key_that_has_expired_counts_as_new(store: Store, alice: Identity, any_database: str) -> None:
    [[first]] = await store.messages.send([keyed(alice)])  # type: ignore[misc]
    assert await store.messages.send([keyed(alice)]) == [[first]]
    await execute(any_database, "UPDATE stafette.keys SET expires_at = now()")
    [[second], [repeated]] = await store.messages.send([keyed(alice), keyed(alice)])  # type: ignore[misc]
    assert second == repeated > first
    await execute(any_database, "UPDATE stafette.keys SET expires_at = now()")
    [[third]] = await store.messages.send([keyed(alice, b"something else")])  # type: ignore[misc]
    assert third > second
    assert isinstance((await store.messages.send([keyed(alice)]))[0], KeyConflict)
    assert (await store.queues.count("jobs")).ready == 3


@pytest.mark.parametrize("gone", ["a queue", "the receiver", "the queue, for another"])
async def test_a_repetition_is_answered_although_it_could_not_be_sent_any_more(
    store: Store, alice: Identity, gone: str
) -> None:
    await store.clients.register("bob")
    await store.queues.create(alice.id, "audit")
    once = SendRequest(alice.id, Draft(("jobs", "audit"), b"once", receiver="bob"), "k")
    [first] = await store.messages.send([once])
    if gone == "the receiver":
        await store.clients.delete("bob", by=alice.id)
    else:
        await store.queues.delete(alice.id, "jobs", force=True)
    if gone == "the queue, for another":
        await store.queues.create(alice.id, "jobs", QueueOptions(max_body=3))

    # Whoever lost the answer learns that it has been sent; anything else gets the fault that it has
    unsent = SendRequest(alice.id, once.draft, "another")
    changed = SendRequest(alice.id, Draft(("jobs", "audit"), b"other", receiver="bob"), "k")
    repeated, never_sent, other = await store.messages.send([once, unsent, changed])
    assert repeated == first
    fault = {"a queue": QueueNotFound, "the receiver": ClientNotFound}.get(gone, MessageTooLarge)
    assert (type(never_sent), type(other)) == (fault, fault)
    await store.pool.fetch("UPDATE stafette.keys SET expires_at = now()")
    assert [type(answer) for answer in await store.messages.send([once])] == [fault]


async def test_a_send_with_a_fault_does_not_repeat_what_comes_after_it(store: Store, alice: Identity) -> None:
    draft = Draft(("jobs",), b"early", receiver="bob")
    early = SendRequest(alice.id, msgspec.structs.replace(draft, allow_unknown=True), "k")
    late = SendRequest(alice.id, draft, "k")
    failed, sent, repeated = await store.messages.send([late, early, late])
    assert isinstance(failed, ClientNotFound)
    assert isinstance(sent, list)
    assert repeated == sent


async def test_a_client_that_is_gone_repeats_nothing(store: Store, alice: Identity) -> None:
    await store.messages.send([keyed(alice)])
    await store.clients.delete("alice", by=alice.id)
    assert [type(answer) for answer in await store.messages.send([keyed(alice)])] == [ClientNotFound]


async def test_a_key_is_not_forgotten_while_it_is_answered(store: Store, alice: Identity, any_database: str) -> None:
    [[first]] = await store.messages.send([keyed(alice)])  # type: ignore[misc]
    # Given a send that stands between its two statements, and a key that expires meanwhile
    await execute(
        any_database,
        f"CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS $$"
        f" BEGIN PERFORM pg_advisory_xact_lock({GATE}); RETURN NULL; END $$",
        "CREATE TRIGGER wait AFTER INSERT ON stafette.ready FOR EACH STATEMENT EXECUTE FUNCTION public.wait()",
    )
    gate = await asyncpg.connect(any_database)
    await gate.execute(f"SELECT pg_advisory_lock({GATE})")
    sender = await asyncpg.connect(any_database)
    try:
        transaction = sender.transaction()
        await transaction.start()
        await sender.fetchval("SELECT now()")  # from here on its time stands still
        await execute(any_database, "UPDATE stafette.keys SET expires_at = clock_timestamp()")
        repeating = asyncio.create_task(
            sender.fetch(
                "SELECT * FROM stafette.send_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                [1, 2],
                [alice.id] * 2,
                ["jobs"] * 2,
                [None] * 2,
                [5] * 2,
                [None] * 2,
                [None] * 2,
                [b"once", b"new"],
                [None] * 2,
                [None] * 2,
                ["k", None],
                [False] * 2,
            )
        )
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"
        while not await gate.fetchval(waiting, GATE):
            await asyncio.sleep(0)
        # When the key's time is over for everybody else
        assert await store.maintenance.forget_keys(limit=10) == 0
        await gate.execute(f"SELECT pg_advisory_unlock({GATE})")
        # Then the repetition is answered
        repeated, new = await repeating
        assert (repeated["id"], repeated["fault"]) == (first, None)
        assert new["id"] > first
        await transaction.commit()
        assert await store.maintenance.forget_keys(limit=10) == 1
    finally:
        await sender.close()
        await gate.close()
        await execute(any_database, "DROP TRIGGER wait ON stafette.ready", "DROP FUNCTION public.wait()")


async def test_keys_count_for_a_day_or_as_long_as_the_setting_says(
    store: Store, alice: Identity, any_database: str
) -> None:
    await store.messages.send([keyed(alice)])
    assert await lifetime(store) == timedelta(hours=24)
    async with await Store.open(any_database, key_hours=48.5) as other:
        await other.messages.send([keyed(alice, key="longer")])
    assert await lifetime(store) == timedelta(hours=48.5)


async def test_so_do_those_of_sends_in_sql(store: Store, alice: Identity, any_database: str) -> None:
    send = "SELECT stafette.send('alice', 'jobs', '', key => '{}')"
    await execute(any_database, send.format("k"))
    assert await lifetime(store) == timedelta(hours=24)
    await execute(any_database, "SET stafette.key_hours = 72", send.format("longer"))
    assert await lifetime(store) == timedelta(hours=72)


@pytest.mark.parametrize("hours", ["0", "-1", "a day", "1e9", "NaN"])
async def test_a_setting_that_is_no_time_is_named(store: Store, alice: Identity, any_database: str, hours: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="set it to a number of hours"):
        await execute(
            any_database, f"SET stafette.key_hours = '{hours}'", "SELECT stafette.send('alice', 'jobs', '', key => 'k')"
        )


async def test_a_broker_brings_its_setting_along(database: str, connect: Connect) -> None:
    async with running(BrokerSettings(database=database, port=0, key_hours=2)) as (runtime, port):
        client = await connect("alice", f"stafette://127.0.0.1:{port}")
        await client.create_queue("jobs")
        await client.send("jobs", "once", key="k")
        assert await lifetime(runtime.store) == timedelta(hours=2)
        await client.close()


async def test_the_other_requests_of_a_batch_do_not_need_the_setting(
    store: Store, alice: Identity, any_database: str
) -> None:
    async with await Store.open(f"{any_database}&stafette.key_hours=never") as odd:
        assert await odd.messages.send([SendRequest(alice.id, Draft(("jobs",), b""))]) != []
        with pytest.raises(InternalError, match=r"the database setting stafette\.key_hours is never"):
            await odd.messages.send([keyed(alice)])
