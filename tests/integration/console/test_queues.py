"""What the console shows of queues and brokers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from stafette import errors
from stafette.database.clients import Claim, Identity
from stafette.database.console import Console
from stafette.database.messages import SendRequest
from stafette.database.store import Store
from stafette.database.views import NameCount
from stafette.model import Draft
from tests.support.actors import ADMIN
from tests.support.console_messages import fill, in_every_state, send

# Queues


async def test_queues_are_listed_with_the_numbers_of_the_last_stock(
    console: Console, store: Store, alice: Identity
) -> None:
    await in_every_state(store, alice)
    before, _ = await console.queues(text="JOB")
    assert [(row.ready, row.delayed, row.leased, row.dead) for row in before] == [(0, 0, 0, 0)]
    await store.maintenance.count_all_messages(pause=0, force=True)
    [jobs], following = await console.queues(text="JOB")
    assert (jobs.name, jobs.creator, jobs.owner, jobs.max_deliveries) == ("jobs", "alice", None, 1)
    assert (jobs.ready, jobs.delayed, jobs.leased, jobs.dead) == (1, 1, 1, 1)
    assert jobs.oldest_at is not None
    assert following is None


async def test_queues_are_told_apart_by_whether_they_are_personal(console: Console, alice: Identity) -> None:
    everything, _ = await console.queues()
    personal, _ = await console.queues(personal=True)
    common, _ = await console.queues(personal=False)
    assert {row.name: row.owner for row in personal} == {"@alice": "alice", "@bob": "bob"}
    assert {row.name: row.dead_letter for row in common} == {"Audit": "jobs", "jobs": None}
    assert {row.name for row in everything} == {row.name for row in (*personal, *common)}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name", ["one", "three", "two", "void"]),
        ("ready", ["three", "two", "one", "void"]),
        ("oldest", ["two", "one", "three", "void"]),
    ],
)
async def test_queues_come_in_the_order_asked_for_page_by_page(
    console: Console, store: Store, alice: Identity, any_database: str, order: str, expected: list[str]
) -> None:
    for name, count in (("one", 1), ("two", 2), ("three", 3), ("void", 0)):
        await store.queues.create(alice.id, name)
        for _ in range(count):
            await send(store, SendRequest(alice.id, Draft((name,), b"")))
    connection = await asyncpg.connect(any_database)
    await connection.execute(
        "UPDATE stafette.ready AS r SET arrived_at = now() - interval '1 hour' FROM stafette.queues AS q"
        " WHERE q.store_id = r.store_id AND q.name = 'two'"
    )
    await connection.close()
    await store.maintenance.count_all_messages(pause=0, force=True)
    found: list[str] = []
    after: str | None = None
    for _ in range(8):
        rows, after = await console.queues(order=order, personal=False, after=after, limit=1)  # type: ignore[arg-type]
        found += [row.name for row in rows]
        if after is None:
            break
    assert [name for name in found if name in expected] == expected
    assert len(found) == len(set(found)) == 6


async def test_a_queue_is_counted_when_asked_for(console: Console, store: Store, alice: Identity) -> None:
    await in_every_state(store, alice)
    await send(store, *(SendRequest(alice.id, Draft(("jobs",), b"")) for _ in range(2)))
    jobs = await console.queue("jobs")
    assert (jobs.ready, jobs.delayed, jobs.leased, jobs.dead, jobs.exact) == (3, 1, 1, 1, True)
    assert jobs.top_senders == [NameCount(name="alice", count=3)]
    assert jobs.top_receivers == [NameCount(name="", count=2), NameCount(name="bob", count=1)]
    assert jobs.oldest_at is not None
    assert jobs.oldest_at <= jobs.counted_at


async def test_a_long_queue_is_as_long_as_at_the_last_stock(
    console: Console, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(any_database, "jobs", 10_001)
    unknown = await console.queue("jobs")
    assert (unknown.ready, unknown.exact) == (10_001, False)
    await fill(any_database, "jobs", 4_999)
    await store.maintenance.count_all_messages(pause=0, force=True)
    await fill(any_database, "jobs", 5)
    jobs = await console.queue("jobs")
    assert (jobs.ready, jobs.exact) == (15_000, False)
    assert jobs.counted_at == (await console.message_counts()).at
    assert jobs.top_senders == [NameCount(name="alice", count=10_001)]


@pytest.mark.parametrize("call", ["queue", "messages", "queue_history", "message"])
async def test_a_queue_that_is_not_there_is_said_to_be_so(console: Console, call: str) -> None:
    more: dict[str, object] = {"queue_history": {"since": datetime.now(UTC)}, "message": {"id": 1}}.get(call, {})  # type: ignore[assignment]
    with pytest.raises(errors.QueueNotFound, match="no queue nowhere"):
        await getattr(console, call)("nowhere", **more)


async def test_a_queue_that_is_not_there_cannot_be_purged(console: Console) -> None:
    with pytest.raises(errors.QueueNotFound, match="no queue nowhere"):
        await console.purge(ADMIN, "nowhere")


# Brokers


async def test_brokers_are_listed_with_what_they_published(console: Console, store: Store, alice: Identity) -> None:
    ended = await store.brokers.join("a", seconds=0)
    living = await store.brokers.join("b", seconds=1000)
    await store.clients.take_sessions([Claim(alice.id)], living)
    await store.brokers.publish_metrics(living, {"answered": 5})
    await store.brokers.publish_metrics(4711, {"answered": 5})
    first, second = await console.brokers()
    assert (first.id, first.alive, first.clients, first.figures, first.figures_at) == (ended, False, 0, None, None)
    assert (second.id, second.name, second.alive, second.clients) == (living, "b", True, 1)
    assert second.figures == {"answered": 5}
    assert second.figures_at is not None
    assert second.figures_at - second.started_at < timedelta(hours=1)
