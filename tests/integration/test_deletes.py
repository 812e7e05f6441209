"""Deleting and purging hide at once, hold nobody up, and leave the rows to upkeep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import asyncpg
import pytest

from stafette import errors
from stafette.broker.maintenance.discarded import DeleteDiscarded
from stafette.database import pool
from stafette.database.clients import Identity
from stafette.database.console import Console
from stafette.database.messages import LeaseRequest, NackRequest, ReadRequest, SendRequest
from stafette.database.queues import Counts
from stafette.database.store import Store
from stafette.model import Draft, LeaseRef, QueueOptions, Selection
from tests.support.actors import ADMIN
from tests.support.brokers import Connect, StartBroker
from tests.support.console_messages import fill
from tests.support.waiting import until

STORED = """
    SELECT (SELECT count(*) FROM stafette.ready) + (SELECT count(*) FROM stafette.delayed)
         + (SELECT count(*) FROM stafette.leased) + (SELECT count(*) FROM stafette.dead)
    """


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.clients.register("alice")
    await store.clients.register("bob")
    await store.queues.create(identity.id, "jobs", QueueOptions(max_deliveries=1))
    await store.queues.create(identity.id, "others")
    return identity


@pytest.fixture
async def application(any_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of somebody who uses the SQL API."""
    connection = await asyncpg.connect(any_database)
    yield connection
    await connection.close()


async def send(store: Store, sender: Identity, queue: str, **fields: object) -> int:
    draft = Draft(**{"queues": (queue,), "body": b"work", **fields})  # type: ignore[arg-type]
    [answer] = await store.messages.send([SendRequest(sender.id, draft)])
    assert isinstance(answer, list), answer
    return answer[0]


async def receive(store: Store, reader: Identity, **fields: object) -> list[int]:
    [answer] = await store.messages.receive([ReadRequest(reader.id, Selection(**fields))])  # type: ignore[arg-type]
    assert isinstance(answer, list), answer
    return [message.id for message in answer]


async def lease(store: Store, reader: Identity, queue: str, seconds: float = 1000.0) -> LeaseRef:
    [answer] = await store.messages.lease([LeaseRequest(reader.id, Selection(queue), seconds)])
    assert isinstance(answer, list), answer
    return LeaseRef(reader.id, answer[0].message.id, answer[0].token)


async def in_every_state(store: Store, alice: Identity, url: str, queue: str = "jobs", **fields: object) -> LeaseRef:
    """One message in each state; returns the lease."""
    await send(store, alice, queue, **fields)
    await lease(store, alice, queue, seconds=0.0)
    await until(lambda: store.maintenance.expire_leases(limit=10))
    await send(store, alice, queue, **fields)
    held = await lease(store, alice, queue)
    await send(store, alice, queue, **fields)
    await send(store, alice, queue, delay=1000.0, **fields)
    assert await store.queues.count(queue) == Counts(1, 1, 1, 1)
    return held


async def upkeep(store: Store, *, limit: int = 1000) -> int:
    """All steps that are due; returns the number of messages deleted."""
    deleted, entries = 0, 1
    while entries:
        messages, entries = await store.maintenance.delete_discarded(limit=limit, grace=0)
        deleted += messages
    return deleted


# At once


async def test_a_deleted_queue_is_gone_at_once_and_its_rows_follow(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record], any_database: str
) -> None:
    held = await in_every_state(store, alice, any_database)
    await store.queues.delete(alice.id, "jobs", force=True)
    with pytest.raises(errors.QueueNotFound):
        await store.queues.get("jobs")
    overview = await store.monitoring.overview()
    assert (overview.ready, overview.delayed, overview.leased, overview.dead) == (0, 0, 0, 0)
    assert await application.fetchval(STORED) == 4  # nobody waited for these to be deleted
    assert [type(answer) for answer in await store.messages.ack([held])] == [errors.LeaseLost]

    await store.queues.create(alice.id, "jobs")
    new = await send(store, alice, "jobs")
    assert await upkeep(store, limit=1) == 3
    assert await application.fetchval(STORED) == 2  # the lease has not run out
    await application.execute("UPDATE stafette.leased SET leased_until = now()")
    assert await store.maintenance.expire_leases(limit=10) == {None: 1}
    assert await receive(store, alice, queue="jobs") == [new]
    assert await application.fetchval(STORED) == 0


async def test_a_purge_hides_at_once_what_it_counts_and_nothing_that_comes_later(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record], any_database: str
) -> None:
    held = await in_every_state(store, alice, any_database)
    await fill(any_database, "jobs", 5000)
    queue = await store.queues.get("jobs")
    assert queue.messages == 5001
    assert await store.queues.purge(alice.id, "jobs") == 5002
    assert await store.queues.get("jobs") == queue_with(queue, messages=0)
    assert await store.queues.count("jobs") == Counts(0, 0, 1, 1)
    assert await application.fetchval(STORED) == 5004

    new = await send(store, alice, "jobs")
    assert await store.queues.purge(alice.id, "others") == 0
    assert await upkeep(store) == 5002
    assert await store.queues.count("jobs") == Counts(1, 0, 1, 1)
    await store.messages.ack([held])
    assert await receive(store, alice, queue="jobs") == [new]


def queue_with(queue: object, **fields: object) -> object:
    return type(queue)(**{**{name: getattr(queue, name) for name in queue.__struct_fields__}, **fields})  # type: ignore[attr-defined]


async def test_what_comes_back_after_a_purge_is_in_the_queue(store: Store, alice: Identity) -> None:
    await send(store, alice, "others")
    held = await lease(store, alice, "others")
    assert await store.queues.purge(alice.id, "others") == 0
    assert await store.messages.nack([NackRequest(held.client, held.message, held.token)]) == ["others"]
    assert await receive(store, alice, queue="others") == [held.message]


async def test_a_new_client_of_an_old_name_sees_nothing_of_the_old(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record], any_database: str
) -> None:
    held = await in_every_state(store, alice, any_database, receiver="alice")
    await send(store, alice, "@alice")
    await send(store, alice, "others", receiver="bob")
    console = Console(store.pool)
    await console.delete_client(ADMIN, "alice")

    again = await store.clients.register("alice")
    assert again.id != alice.id
    assert await receive(store, again, queue="jobs", count=10) == []
    assert await store.queues.waiting(again.id) == []
    assert await store.queues.count("jobs") == Counts(0, 0, 0, 0)
    assert await store.queues.count("@alice") == Counts(0, 0, 0, 0)
    assert [type(answer) for answer in await store.messages.ack([held])] == [errors.LeaseLost]
    for state in ("ready", "delayed", "leased", "dead"):
        assert (await console.messages("jobs", state=state)).messages == []
    assert (await console.client_messages("alice", "waiting")).messages == []
    [sent] = (await console.messages("others")).messages
    assert (sent.sender, sent.receiver) == ("alice", "bob")  # what the old one sent is still from alice

    assert await upkeep(store, limit=2) == 4
    assert await application.fetchval(STORED) == 2  # the lease, and what bob is to have
    new = await send(store, again, "jobs", receiver="alice")
    assert await receive(store, again, queue="jobs") == [new]


async def test_an_empty_queue_can_be_deleted_although_rows_of_a_deleted_client_are_in_it(
    store: Store, alice: Identity
) -> None:
    await send(store, alice, "jobs", receiver="bob")
    with pytest.raises(errors.QueueNotEmpty):
        await store.queues.delete(alice.id, "jobs")
    await Console(store.pool).delete_client(ADMIN, "bob")
    await store.queues.delete(alice.id, "jobs")


async def test_one_who_is_addressed_before_he_comes_back_gets_it(store: Store, alice: Identity) -> None:
    await Console(store.pool).delete_client(ADMIN, "bob")
    with pytest.raises(AssertionError, match="there is no client bob"):
        await send(store, alice, "jobs", receiver="bob")
    early = await send(store, alice, "jobs", receiver="bob", allow_unknown=True)
    bob = await store.clients.register("bob")
    assert await receive(store, bob, queue="jobs") == [early]


# Private messages: a purge by a client leaves what others have sent to others


@pytest.fixture
async def carol(store: Store, alice: Identity) -> Identity:
    return await store.clients.register("carol")


@pytest.mark.parametrize("delay", [None, 1000.0])
async def test_private_messages_survive_the_purge_of_a_stranger(
    store: Store, alice: Identity, carol: Identity, any_database: str, delay: float | None
) -> None:
    bob = await store.clients.register("bob")
    private = await send(store, alice, "jobs", receiver="bob", delay=delay)
    await fill(any_database, "jobs", 2500)
    await send(store, alice, "jobs", delay=1000.0)
    await send(store, alice, "jobs", receiver="carol")  # hers
    await send(store, carol, "jobs", receiver="bob")  # from her
    await send(store, bob, "others")
    assert await store.queues.purge(carol.id, "jobs") == 2503
    assert await store.queues.count("jobs") == (Counts(1, 0, 0, 0) if delay is None else Counts(0, 1, 0, 0))
    assert (await store.queues.get("jobs")).messages == (1 if delay is None else 0)
    assert await receive(store, alice, queue="jobs") == []
    if delay is None:
        assert await receive(store, bob, queue="jobs", count=10) == [private]
    assert (await store.queues.get("others")).messages == 1


async def test_the_receiver_the_sender_and_the_operator_purge_private_messages(store: Store, alice: Identity) -> None:
    bob = await store.clients.register("bob")
    for purger, messages in ((bob, 3), (alice, 2)):  # alice has not sent what bob has for himself
        await send(store, alice, "jobs", receiver="bob", delay=1000.0)
        await send(store, alice, "jobs", receiver="bob")
        await send(store, bob, "jobs", receiver="bob")
        assert await store.queues.purge(purger.id, "jobs") == messages
    assert await Console(store.pool).purge(ADMIN, "jobs") == 1
    assert await store.queues.count("jobs") == Counts(0, 0, 0, 0)


async def test_without_private_messages_a_purge_deletes_nothing_itself(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record], any_database: str
) -> None:
    """What is for the client itself, and what waits for others elsewhere, does not count."""
    await fill(any_database, "jobs", 100)
    await send(store, alice, "jobs", receiver="alice")
    await send(store, alice, "jobs", receiver="alice", delay=1000.0)
    await send(store, alice, "others", receiver="bob")
    assert await store.queues.purge(alice.id, "jobs") == 102
    assert await application.fetchval(STORED) == 103


async def test_a_purge_by_steps_takes_nothing_that_was_sent_after_it_began(
    store: Store, alice: Identity, carol: Identity
) -> None:
    await send(store, alice, "jobs", receiver="bob")
    old = [await send(store, alice, "jobs", priority=priority) for priority in (1, 10, 5)]
    [(deleted, reached)] = await store.pool.fetch(
        "SELECT * FROM stafette.purge_step($1, 'jobs', NULL, 1)", carol.id
    )  # nothing is delayed
    assert deleted == 0
    new = [await send(store, alice, "jobs", priority=priority) for priority in (1, 10, 5)]
    while reached is not None:
        [(step, reached)] = await store.pool.fetch(
            "SELECT * FROM stafette.purge_step($1, 'jobs', $2, 1)", carol.id, reached
        )
        deleted += step
    assert deleted == len(old)
    assert sorted(await receive(store, carol, queue="jobs", count=10)) == new


async def test_a_purge_by_steps_waits_for_nobody(
    store: Store, alice: Identity, carol: Identity, application: asyncpg.Connection[asyncpg.Record]
) -> None:
    """It leaves a message to whoever is taking it."""
    await send(store, alice, "jobs", receiver="bob")
    await send(store, alice, "jobs", priority=10)
    await send(store, alice, "jobs")
    async with asyncio.timeout(30), application.transaction():
        assert len(await application.fetch("SELECT * FROM stafette.receive('alice', 'jobs')")) == 1
        assert await store.queues.purge(carol.id, "jobs") == 1
    assert await store.queues.count("jobs") == Counts(1, 0, 0, 0)


# Nobody waits


@pytest.mark.parametrize("work", ["delete queue", "purge", "delete client"])
async def test_an_open_transaction_holds_up_nobody_but_who_deletes(
    store: Store,
    alice: Identity,
    application: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
    work: str,
) -> None:
    transaction = application.transaction()
    await transaction.start()
    await application.execute("SELECT stafette.send('alice', 'jobs', 'in flight')")
    deleting: asyncio.Future[int | None]
    if work == "delete queue":
        deleting = asyncio.ensure_future(store.queues.delete(alice.id, "jobs", force=True))
    elif work == "purge":
        deleting = asyncio.ensure_future(store.queues.purge(alice.id, "jobs"))
    else:
        deleting = asyncio.ensure_future(store.clients.delete("bob", by=alice.id))
    async with asyncio.timeout(30):
        for _ in range(200):  # none of these waits behind it
            await send(store, alice, "others")
    assert not deleting.done()
    await transaction.commit()
    await deleting

    monkeypatch.setattr(pool, "ALONE_SECONDS", 0.0)
    transaction = application.transaction()
    await transaction.start()
    await application.execute("SELECT stafette.send('alice', 'others', 'in flight')")
    with pytest.raises(errors.Unavailable, match=f"process {application.get_server_pid()}, .* is in the way") as caught:
        await store.queues.purge(alice.id, "others")
    assert caught.value.outcome == "not done"
    await transaction.rollback()


async def test_a_send_in_flight_is_not_lost_to_a_queue_that_is_deleted_or_purged(
    store: Store, alice: Identity, any_database: str
) -> None:
    """Each send either failed or is in the queue as it is now; none is stored where nobody sees it."""

    async def purge() -> int:
        return sum([await store.queues.purge(alice.id, "jobs") for _ in range(30)])

    async def sends() -> int:
        return sum([len([await send(store, alice, "jobs")]) for _ in range(100)])

    purged, *sent = await asyncio.gather(purge(), *(sends() for _ in range(4)))
    assert sum(sent) == purged + (await store.queues.count("jobs")).ready


# Upkeep


async def test_upkeep_is_not_held_up_by_what_is_discarded(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record]
) -> None:
    """Leases and delays of deleted queues come first, and a step has room for one row."""
    for queue in ("jobs", "others"):
        await send(store, alice, queue)
        await lease(store, alice, queue)
        await send(store, alice, queue, delay=1000.0)
    await application.execute("UPDATE stafette.leased SET leased_until = now() + (id - 1e9) * interval '1 ms'")
    await application.execute("UPDATE stafette.delayed SET due_at = now() + (id - 1e9) * interval '1 ms'")
    await store.queues.delete(alice.id, "jobs", force=True)
    leases = [await store.maintenance.expire_leases(limit=1) for _ in range(3)]
    assert leases == [{None: 1}, {"others": 1}, {}]
    delays = [await store.maintenance.promote_delayed(limit=1) for _ in range(3)]
    assert delays == [{None: 1}, {"others": 1}, {}]
    assert await upkeep(store) == 1  # the delayed one was only put out of the way, so that a purge counts it


async def test_several_brokers_delete_side_by_side(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record], any_database: str
) -> None:
    for queue in ("jobs", "others"):
        await fill(any_database, queue, 500)
        await store.queues.delete(alice.id, queue, force=True)
    deleted = await asyncio.gather(*(upkeep(store, limit=7) for _ in range(3)))
    assert sum(deleted) == 1000
    assert await application.fetchval(STORED) == 0
    assert await application.fetchval("SELECT count(*) FROM stafette.discarded") == 0


async def test_each_step_begins_where_the_last_ended(
    store: Store, alice: Identity, application: asyncpg.Connection[asyncpg.Record], any_database: str
) -> None:
    """Also while a transaction with an old snapshot keeps vacuum from removing what is deleted."""
    await fill(any_database, "jobs", 5000)
    await store.queues.purge(alice.id, "jobs")
    old = application.transaction(isolation="repeatable_read")
    await old.start()
    await application.fetchval(STORED)
    touched = []
    async with await Store.open(any_database, connections=1) as one_session:
        connection = await asyncpg.connect(any_database)
        while True:
            before = await fetched(connection)
            messages, _ = await one_session.maintenance.delete_discarded(limit=100, grace=0)
            await one_session.pool.value("SELECT pg_stat_force_next_flush()")
            touched.append(await fetched(connection) - before)
            if not messages:
                break
        await connection.close()
    await old.rollback()
    assert max(touched) <= 500  # one step is 100 rows, each fetched and then deleted


async def fetched(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    sql = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_pkey'"
    return int(await connection.fetchval(sql) or 0)


async def test_a_broker_deletes_what_is_discarded_and_says_how_much_is_left(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    for _ in range(3):
        await alice.send("jobs", b"work")
    assert await alice.purge("jobs") == 3
    connection = await asyncpg.connect(database)
    service = DeleteDiscarded()
    await service.round(runtime)
    assert runtime.core.metrics.to_delete == 2  # the ready messages and the delayed ones
    assert await connection.fetchval(STORED) == 3  # for a while they are left alone
    await connection.execute("UPDATE stafette.discarded SET at = at - interval '1 minute'")

    async def nothing_is_left() -> bool:
        await service.round(runtime)
        return runtime.core.metrics.to_delete == 0

    await until(nothing_is_left)
    assert await connection.fetchval(STORED) == 0
    await connection.close()


# The heartbeat


async def test_a_broker_keeps_its_lease_while_all_its_connections_are_busy(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    runtime, _ = await brokers(connections=1)
    connection = await asyncpg.connect(database)

    async def alive_until() -> datetime:
        sql = "SELECT alive_until FROM stafette.brokers WHERE id = $1"
        return await connection.fetchval(sql, runtime.broker_id)  # type: ignore[no-any-return]

    await connection.execute("SELECT pg_advisory_lock(1)")
    waiting = [asyncio.create_task(runtime.store.pool.fetch("SELECT pg_advisory_lock_shared(1)")) for _ in range(20)]
    before = await alive_until()

    async def is_renewed() -> bool:
        return await alive_until() > before

    await until(is_renewed)
    before = await alive_until()
    await until(is_renewed)  # a second time, so that it did not begin before the others
    await connection.close()
    await asyncio.gather(*waiting, return_exceptions=True)
