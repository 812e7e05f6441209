"""Leases: at least once, fenced, and an end for what cannot be processed."""

from __future__ import annotations

import asyncpg
import pytest

from stafette import errors
from stafette.database.clients import Identity
from stafette.database.console import Console
from stafette.database.messages import ExtendRequest, LeaseRequest, NackRequest, ReadRequest, SendRequest
from stafette.database.queues import Counts
from stafette.database.store import Store
from stafette.model import Draft, Leased, LeaseRef, QueueOptions, Selection
from tests.support.actors import ADMIN


@pytest.fixture
async def worker(store: Store) -> Identity:
    identity = await store.clients.register("worker")
    assert identity.id == WORKER
    await store.queues.create(identity.id, "graveyard")
    await store.queues.create(identity.id, "jobs", QueueOptions(max_deliveries=2))
    await store.queues.create(identity.id, "buried", QueueOptions(max_deliveries=1, dead_letter="graveyard"))
    return identity


async def lease(store: Store, worker: Identity, queue: str = "jobs", seconds: float = 1000) -> Leased:
    [answer] = await store.messages.lease([LeaseRequest(worker.id, Selection(queue), seconds)])
    assert isinstance(answer, list), answer
    return answer[0]


async def send(store: Store, worker: Identity, queue: str = "jobs") -> int:
    [answer] = await store.messages.send(
        [SendRequest(worker.id, Draft((queue,), b"work", headers={"a": "b"}, receiver="worker"))]
    )
    assert isinstance(answer, list), answer
    return answer[0]


async def let_time_pass(url: str, seconds: float) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "UPDATE stafette.leased SET leased_until = leased_until - $1 * interval '1 second'", seconds
    )
    await connection.close()


WORKER = 1
"""The id of the first client, which holds the leases."""


def held(lease: Leased, client: int = WORKER) -> LeaseRef:
    return LeaseRef(client, lease.message.id, lease.token)


def given_back(lease: Leased, delay: float | None = None, client: int = WORKER) -> NackRequest:
    return NackRequest(client, lease.message.id, lease.token, delay)


def extended(lease: Leased, seconds: float, client: int = WORKER) -> ExtendRequest:
    return ExtendRequest(client, lease.message.id, lease.token, seconds)


async def test_a_leased_message_is_hidden_until_it_is_done(store: Store, worker: Identity) -> None:
    message_id = await send(store, worker)
    work = await lease(store, worker)
    assert work.message.id == message_id
    assert work.message.deliveries == 1
    assert await store.messages.receive([ReadRequest(worker.id, Selection("jobs"))]) == [[]]
    assert await store.queues.count("jobs") == Counts(ready=0, delayed=0, leased=1, dead=0)
    assert await store.messages.ack([held(work)]) == [None]
    assert await store.queues.count("jobs") == Counts(ready=0, delayed=0, leased=0, dead=0)


async def test_an_ack_counts_once_and_only_with_its_token(store: Store, worker: Identity) -> None:
    await send(store, worker)
    work = await lease(store, worker)
    wrong, right, again = await store.messages.ack(
        [LeaseRef(worker.id, work.message.id, work.token + 1), held(work), held(work)]
    )
    assert isinstance(wrong, errors.LeaseLost)
    assert right is None
    assert isinstance(again, errors.LeaseLost)


async def test_a_lease_is_its_holders_whoever_learns_the_token(store: Store, worker: Identity) -> None:
    thief = await store.clients.register("thief")
    message_id = await send(store, worker)
    work = await lease(store, worker)
    messages = store.messages
    for settled in (
        await messages.ack([held(work, thief.id)]),
        await messages.nack([given_back(work, client=thief.id)]),
        await messages.extend([extended(work, 30, thief.id)]),
    ):
        assert [type(answer) for answer in settled] == [errors.LeaseLost]
    assert (await store.queues.count("jobs")).leased == 1
    ours, theirs = await messages.ack([held(work), held(work, thief.id)])
    assert ours is None
    assert isinstance(theirs, errors.LeaseLost)
    assert work.message.id == message_id


async def test_tokens_say_nothing_of_each_other(store: Store, worker: Identity) -> None:
    for _ in range(40):
        await send(store, worker)
    asks = [LeaseRequest(worker.id, Selection("jobs", count=2), 1000) for _ in range(20)]
    answers = await store.messages.lease(asks)
    tokens = [leased.token for answer in answers if isinstance(answer, list) for leased in answer]
    assert len(set(tokens)) == 40
    assert all(0 <= token < 2**63 for token in tokens)
    ordered = sorted({token >> 32 for token in tokens})
    assert len(ordered) == 20, "those of one request differ in their last bits, others everywhere"


async def test_a_nack_puts_the_message_back_and_counts(store: Store, worker: Identity) -> None:
    await send(store, worker)
    first = await lease(store, worker)
    assert await store.messages.nack([given_back(first)]) == ["jobs"]
    second = await lease(store, worker)
    assert second.message.deliveries == 2
    assert [type(answer) for answer in await store.messages.ack([held(first)])] == [errors.LeaseLost]
    assert await store.messages.ack([held(second)]) == [None]


async def test_a_nack_with_a_delay_waits(store: Store, worker: Identity) -> None:
    await send(store, worker)
    assert await store.messages.nack([given_back(await lease(store, worker), delay=1000)]) == [None]
    assert await store.queues.count("jobs") == Counts(ready=0, delayed=1, leased=0, dead=0)


async def test_a_lease_that_ran_out_is_lost_and_the_message_comes_again(
    store: Store, worker: Identity, any_database: str
) -> None:
    message_id = await send(store, worker)
    late = await lease(store, worker, seconds=10)
    await let_time_pass(any_database, 11)
    messages = store.messages
    settled = (messages.ack([held(late)]), messages.nack([given_back(late)]), messages.extend([extended(late, 30)]))
    for [answer] in [await settling for settling in settled]:
        assert type(answer) is errors.LeaseLost
    assert await store.maintenance.expire_leases(limit=10) == {"jobs": 1}
    again = await lease(store, worker)
    assert (again.message.id, again.message.deliveries) == (message_id, 2)


async def test_extending_keeps_a_lease(store: Store, worker: Identity, any_database: str) -> None:
    await send(store, worker)
    work = await lease(store, worker, seconds=10)
    assert await store.messages.extend([extended(work, 1000)]) == [None]
    await let_time_pass(any_database, 11)
    assert await store.maintenance.expire_leases(limit=10) == {}
    assert await store.messages.ack([held(work)]) == [None]


async def test_after_the_last_delivery_a_message_is_dead_until_it_is_redriven(store: Store, worker: Identity) -> None:
    message_id = await send(store, worker)
    for _ in range(2):
        await store.messages.nack([given_back(await lease(store, worker))])
    assert await store.queues.count("jobs") == Counts(ready=0, delayed=0, leased=0, dead=1)
    assert await Console(store.pool).redrive(ADMIN, "jobs") == 1
    work = await lease(store, worker)
    assert (work.message.id, work.message.deliveries) == (message_id, 1)
    await store.messages.nack([given_back(work)])
    await store.messages.nack([given_back(await lease(store, worker))])
    assert await Console(store.pool).delete_dead(ADMIN, "jobs") == 1
    assert await store.queues.count("jobs") == Counts(ready=0, delayed=0, leased=0, dead=0)


async def test_a_dead_letter_queue_gets_what_died(store: Store, worker: Identity) -> None:
    message_id = await send(store, worker, "buried")
    await store.messages.nack([given_back(await lease(store, worker, "buried"), delay=1000)])
    [[message]] = await store.messages.receive([ReadRequest(worker.id, Selection("graveyard"))])  # type: ignore[misc]
    assert message.id == message_id
    assert message.headers == {"a": "b", "stafette-died-in": "buried"}
    assert message.deliveries == 0


async def test_an_addressed_message_is_its_receivers_in_a_dead_letter_queue(store: Store, worker: Identity) -> None:
    other = await store.clients.register("other")
    await send(store, worker, "buried")
    await store.messages.nack([given_back(await lease(store, worker, "buried"))])
    assert await store.messages.receive([ReadRequest(other.id, Selection("graveyard"))]) == [[]]
    [[message]] = await store.messages.receive([ReadRequest(worker.id, Selection("graveyard"))])  # type: ignore[misc]
    assert message.receiver == "worker"


async def test_in_a_personal_queue_it_is_the_owners(store: Store, worker: Identity) -> None:
    await store.clients.register("other")
    await store.queues.create(worker.id, "mine", QueueOptions(max_deliveries=1, dead_letter="@other"))
    await send(store, worker, "mine")
    await store.messages.nack([given_back(await lease(store, worker, "mine"))])
    other = await store.clients.get("other")
    [[message]] = await store.messages.receive([ReadRequest(other.id, Selection("@other"))])  # type: ignore[misc]
    assert message.receiver == "other"


async def test_where_own_messages_are_excluded_one_to_oneself_is_for_anyone(store: Store, worker: Identity) -> None:
    await store.queues.create(worker.id, "others", QueueOptions(exclude_own=True))
    await store.queues.create(worker.id, "mine", QueueOptions(max_deliveries=1, dead_letter="others"))
    await send(store, worker, "mine")
    await store.messages.nack([given_back(await lease(store, worker, "mine"))])
    other = await store.clients.register("other")
    [[message]] = await store.messages.receive([ReadRequest(other.id, Selection("others"))])  # type: ignore[misc]
    assert message.receiver is None


async def test_what_expires_under_a_lease_can_be_acknowledged_and_comes_back_to_nobody(
    store: Store, worker: Identity, any_database: str
) -> None:
    for _ in range(3):
        await store.messages.send([SendRequest(worker.id, Draft(("jobs",), b"brief", ttl=1000))])
    done, nacked, forgotten = [await lease(store, worker) for _ in range(3)]
    connection = await asyncpg.connect(any_database)
    await connection.execute("UPDATE stafette.leased SET expires_at = now()")
    assert await store.messages.ack([held(done)]) == [None]
    assert await store.messages.nack([given_back(nacked)]) == ["jobs"]
    await connection.execute("UPDATE stafette.leased SET leased_until = now()")
    await connection.close()
    assert await store.maintenance.expire_leases(limit=10) == {"jobs": 1}
    assert [type(answer) for answer in await store.messages.ack([held(forgotten)])] == [errors.LeaseLost]
    assert await store.messages.receive([ReadRequest(worker.id, Selection("jobs", count=9))]) == [[]]
    assert await store.maintenance.drop_expired(limit=10) == 2


async def test_a_redriven_message_has_no_time_to_live(store: Store, worker: Identity, any_database: str) -> None:
    await store.queues.create(worker.id, "brief", QueueOptions(max_deliveries=1))
    await store.messages.send([SendRequest(worker.id, Draft(("brief",), b"kept", ttl=1000))])
    await store.messages.nack([given_back(await lease(store, worker, "brief"))])
    connection = await asyncpg.connect(any_database)
    await connection.execute("UPDATE stafette.dead SET expires_at = now() - interval '1 second'")
    await connection.close()
    assert await Console(store.pool).redrive(ADMIN, "brief") == 1
    assert await store.maintenance.drop_expired(limit=10) == 0
    [[message]] = await store.messages.receive([ReadRequest(worker.id, Selection("brief"))])  # type: ignore[misc]
    assert message.body == b"kept"


async def test_a_lease_batch_has_its_own_errors(store: Store, worker: Identity) -> None:
    await send(store, worker)
    missing, found, empty = await store.messages.lease(
        [
            LeaseRequest(worker.id, Selection("nowhere")),
            LeaseRequest(worker.id, Selection("jobs")),
            LeaseRequest(worker.id, Selection("jobs")),
        ]
    )
    assert isinstance(missing, errors.QueueNotFound)
    assert isinstance(found, list)
    assert len(found) == 1
    assert empty == []
