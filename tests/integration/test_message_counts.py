"""Message counts and history: what brokers record for operators, and that it stays small."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from stafette import errors
from stafette.broker.diagnostics import Recent, published_metrics
from stafette.broker.maintenance.history import WriteHistory, until_slot, work_of
from stafette.broker.maintenance.message_counts import CountMessages
from stafette.database.clients import Claim, Identity
from stafette.database.console import Console
from stafette.database.maintenance import Maintenance, Work
from stafette.database.messages import LeaseRequest, NackRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, QueueOptions, Selection
from tests.support.actors import ADMIN
from tests.support.brokers import Connect, StartBroker
from tests.support.waiting import until

DAY = timedelta(days=1)


@pytest.fixture
def console(store: Store) -> Console:
    return Console(store.pool)


@pytest.fixture
def maintenance(store: Store) -> Maintenance:
    return store.maintenance


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.clients.register("alice")
    for name in ("jobs", "mail", "void"):
        await store.queues.create(identity.id, name, QueueOptions(max_deliveries=1))
    return identity


async def fill(store: Store, alice: Identity) -> None:
    """Six ready in jobs and one in mail, one each delayed, leased and dead in jobs."""
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"", priority=10)) for _ in range(2)])
    answers = await store.messages.lease([LeaseRequest(alice.id, Selection("jobs"), 1000) for _ in range(2)])
    [_, [died]] = [answer for answer in answers if isinstance(answer, list)]
    await store.messages.nack([NackRequest(alice.id, died.message.id, died.token)])
    await store.messages.send(
        [
            *(
                SendRequest(alice.id, Draft(("jobs",), b"", priority=n, receiver=(None, "alice")[n % 2]))
                for n in range(1, 7)
            ),
            SendRequest(alice.id, Draft(("jobs",), b"", delay=1000)),
            SendRequest(alice.id, Draft(("mail",), b"")),
        ]
    )


async def execute(url: str, sql: str, *arguments: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(sql, *arguments)
    finally:
        await connection.close()


# Message counts


async def test_counts_are_of_all_messages_by_queue_and_state(
    console: Console, maintenance: Maintenance, store: Store, alice: Identity
) -> None:
    await fill(store, alice)
    assert await maintenance.count_all_messages(pause=0)
    counts = await console.message_counts()
    assert (counts.ready, counts.delayed, counts.leased, counts.dead) == (7, 1, 1, 1)
    assert (counts.clients, counts.online, counts.brokers, counts.queues) == (1, 0, 0, 4)
    rows, _ = await console.queues()
    assert {row.name: (row.ready, row.delayed, row.leased, row.dead) for row in rows} == {
        "@alice": (0, 0, 0, 0),
        "jobs": (6, 1, 1, 1),
        "mail": (1, 0, 0, 0),
        "void": (0, 0, 0, 0),
    }


async def test_the_oldest_is_found_behind_any_priority_and_receiver(
    console: Console, maintenance: Maintenance, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(store, alice)
    [[oldest]] = await execute(
        any_database,
        "UPDATE stafette.ready SET arrived_at = now() - interval '1 hour' WHERE id = (SELECT min(r.id)"
        " FROM stafette.ready AS r JOIN stafette.queues AS q ON q.store_id = r.store_id WHERE q.name = 'jobs')"
        " RETURNING arrived_at",
    )
    await maintenance.count_all_messages(pause=0)
    assert (await console.message_counts()).oldest_at == oldest
    assert {row.name: row.oldest_at == oldest for row in (await console.queues())[0] if row.ready} == {
        "jobs": True,
        "mail": False,
    }


async def test_before_the_first_stock_little_is_counted_at_once(
    console: Console, store: Store, alice: Identity
) -> None:
    await fill(store, alice)
    counts = await console.message_counts()
    assert (counts.ready, counts.delayed, counts.leased, counts.dead) == (7, 1, 1, 1)


async def test_counts_follow_what_goes(
    console: Console, maintenance: Maintenance, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(store, alice)
    await maintenance.count_all_messages(pause=0)
    await console.purge(ADMIN, "jobs")
    await console.delete_queue(ADMIN, "mail", force=True)
    await maintenance.count_all_messages(pause=0, force=True)
    counts = await console.message_counts()
    assert (counts.ready, counts.delayed, counts.oldest_at) == (0, 0, None)
    assert [tuple(row) for row in await execute(
        any_database, "SELECT ready, delayed, leased, dead, oldest_at FROM stafette.queue_message_counts"
    )] == [(0, 0, 1, 1, None)]  # fmt: skip


async def test_only_what_changed_is_written(
    maintenance: Maintenance, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(store, alice)
    await maintenance.count_all_messages(pause=0)
    versions = "SELECT queue_id, ctid, xmin, xmax FROM stafette.queue_message_counts ORDER BY queue_id"
    before = await execute(any_database, versions)
    await store.messages.send([SendRequest(alice.id, Draft(("mail",), b""))])
    await maintenance.count_all_messages(pause=0, force=True)
    after = await execute(any_database, versions)
    assert len(before) == len(after) == 2
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]


async def test_counts_are_taken_by_one_at_a_time_and_not_too_often(
    maintenance: Maintenance, store: Store, any_database: str
) -> None:
    connection = await asyncpg.connect(any_database)
    async with connection.transaction():
        assert await connection.fetchval("SELECT stafette.count_all_messages(0)")
        assert not await maintenance.count_all_messages(pause=0, force=True)  # somebody is at it
    await connection.close()
    assert not await maintenance.count_all_messages(pause=1000)
    await execute(any_database, "UPDATE stafette.message_counts SET at = now() - interval '1001 seconds'")
    assert await maintenance.count_all_messages(pause=1000)
    await execute(any_database, "UPDATE stafette.message_counts SET at = now() - interval '1001 seconds', seconds = 60")
    assert not await maintenance.count_all_messages(pause=1000)  # that would be more than a twentieth of the time
    await execute(any_database, "UPDATE stafette.message_counts SET at = now() - interval '1201 seconds', seconds = 60")
    assert await maintenance.count_all_messages(pause=1000)
    await execute(any_database, "UPDATE stafette.message_counts SET at = now() + interval '1 day'")
    assert await maintenance.count_all_messages(pause=1000)  # a clock has been put back


# History


async def test_brokers_add_up_in_both_resolutions(console: Console, maintenance: Maintenance) -> None:
    work = Work(
        sent=1, received=2, failed=3, refused=4, requests=5, batches=6, queue_seconds=0.5, database_seconds=0.25
    )
    await asyncio.gather(*(maintenance.add_history(work) for _ in range(4)))
    for span in (10, 300, 3600):
        points = await console.history(since=datetime.now(UTC) - DAY, span=span)
        assert sum(point.sent for point in points) == 4
        assert [sum(getattr(point, field) for point in points) for field in work.__struct_fields__] == [
            4, 8, 12, 16, 20, 24, 2.0, 1.0,
        ]  # fmt: skip
        assert {point.span for point in points} == {span}
        assert all(point.ready is None for point in points)
        assert all(point.at.timestamp() % span == 0 for point in points)


async def test_the_stock_taker_adds_depths_and_the_last_counts(
    console: Console, maintenance: Maintenance, store: Store, alice: Identity
) -> None:
    await fill(store, alice)
    broker = await store.brokers.join("here", seconds=1000)
    await store.clients.take_sessions([Claim(alice.id)], broker)
    await maintenance.count_all_messages(pause=0)
    await store.messages.send([SendRequest(alice.id, Draft(("mail",), b""))])
    await maintenance.count_all_messages(pause=0, force=True)
    last = (await console.history(since=datetime.now(UTC) - DAY, span=10))[-1]
    assert (last.ready, last.delayed, last.leased, last.dead, last.online) == (8, 1, 1, 1, 1)
    assert (last.sent, last.requests) == (0, 0)


async def test_points_are_made_of_slots_and_begin_in_time(
    console: Console, maintenance: Maintenance, any_database: str
) -> None:
    await execute(
        any_database,
        "INSERT INTO stafette.history (span, at, sent, ready) SELECT 10, t.at, 1, CASE WHEN t.n < 5 THEN t.n END"
        " FROM (SELECT n, timestamptz '2020-01-01 00:00Z' + n * interval '10 seconds' AS at"
        " FROM generate_series(0, 11) AS n) AS t WHERE t.n <> 7",
    )
    start = datetime(2020, 1, 1, tzinfo=UTC)
    minutes = await console.history(since=start, span=60)
    assert [(point.at, point.sent, point.ready) for point in minutes] == [
        (start, 6, 4),
        (start + timedelta(minutes=1), 5, None),
    ]
    later = await console.history(since=start + timedelta(seconds=65), span=10)
    assert [point.at.second for point in later] == [0, 20, 30, 40, 50]
    for span in (0, -10, 15):
        with pytest.raises(errors.InvalidRequest, match="multiple of 10"):
            await console.history(since=start, span=span)


async def test_the_longest_queues_have_a_history_of_their_own(
    console: Console, maintenance: Maintenance, store: Store, alice: Identity, any_database: str
) -> None:
    await execute(
        any_database,
        "INSERT INTO stafette.queues (name, creator_id) SELECT 'q' || n, $1 FROM generate_series(1, 101) AS n",
        alice.id,
    )
    await execute(
        any_database,
        "INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)"
        " SELECT nextval('stafette.message_id'), q.store_id, 0, 1, 5, 0, now(), '' FROM stafette.queues AS q,"
        " generate_series(1, CASE q.name WHEN 'q77' THEN 1 ELSE 2 END) WHERE q.name LIKE 'q%'",
    )
    await maintenance.count_all_messages(pause=0)
    since = datetime.now(UTC) - timedelta(minutes=5)
    assert [depth.messages for depth in await console.queue_history("q1", since=since)] == [2]
    assert await console.queue_history("q77", since=since) == []
    await execute(any_database, "UPDATE stafette.queue_depths SET at = at - interval '2 minutes'")
    await maintenance.count_all_messages(pause=0, force=True)
    await maintenance.count_all_messages(pause=0, force=True)
    depths = await console.queue_history("q1", since=since)
    assert len(depths) in (2, 3)  # three when a minute passed between the last two
    assert depths == sorted(depths, key=lambda depth: depth.at)


async def test_what_is_past_its_time_is_forgotten_in_steps(
    console: Console, maintenance: Maintenance, any_database: str
) -> None:
    await execute(
        any_database,
        "INSERT INTO stafette.history (span, at) SELECT s.span, now() - s.age + n * interval '300 seconds'"
        " FROM (VALUES (10, interval '24 hours'), (300, interval '30 days')) AS s (span, age),"
        " generate_series(-5, 4) AS n WHERE n <> 0",
    )
    await execute(
        any_database,
        "INSERT INTO stafette.queue_depths (queue_id, at, messages)"
        " SELECT 1, now() - interval '24 hours' + n * interval '1 minute', n FROM generate_series(-3, 3) AS n",
    )
    await execute(
        any_database,
        "INSERT INTO stafette.operator_sessions VALUES ('old', 'admin', now()), ('new', 'admin', now() + '1 hour')",
    )
    assert await maintenance.forget_history(limit=3) == 3 + 3 + 3 + 1
    assert await maintenance.forget_history(limit=3) == 2 + 2 + 1
    assert await maintenance.forget_history(limit=3) == 0
    [counts] = await execute(
        any_database,
        "SELECT (SELECT count(*) FROM stafette.history), (SELECT count(*) FROM stafette.queue_depths),"
        " (SELECT count(*) FROM stafette.operator_sessions)",
    )
    assert tuple(counts) == (8, 3, 1)


# Brokers


async def test_a_broker_writes_down_what_it_did(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    console = Console(runtime.store.pool)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    await alice.create_queue("more")
    await alice.send(["jobs", "more"], b"one")
    await alice.send_many([{"queue": "jobs", "body": b"two"}, {"queue": "jobs", "body": b"three"}])
    await alice.peek("jobs")
    await alice.receive("jobs")
    async with alice.lease("jobs"):
        pass
    with pytest.raises(errors.QueueNotFound):
        await alice.send("nowhere", b"")
    history = WriteHistory()
    await history.round(runtime)
    await history.round(runtime)  # nothing new, nothing added
    points = await console.history(since=datetime.now(UTC) - DAY, span=300)
    assert sum(point.sent for point in points) == runtime.core.metrics.sent == 4
    assert sum(point.received for point in points) == runtime.core.metrics.handed_out == 2
    assert sum(point.failed for point in points) == 1
    assert sum(point.requests for point in points) == work_of(runtime).requests
    assert 0 < history.seconds <= 10


async def test_rounds_fall_on_the_edge_or_the_middle_of_a_slot() -> None:
    for part in (0.0, 0.5):
        before, seconds, after = time.time(), until_slot(part), time.time()
        assert 0 < seconds <= 10
        moment = 10 * (math.ceil((before + seconds - 1e-6) / 10 - part) + part)  # the first that is not too early
        assert moment <= after + seconds + 1e-6


async def test_a_broker_takes_stock_and_publishes_its_figures(
    database: str, brokers: StartBroker, connect: Connect
) -> None:
    runtime, url = await brokers()
    console = Console(runtime.store.pool)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    await alice.send("jobs", b"")
    rounds = runtime.core.metrics.rounds
    await until(lambda: rounds["CountMessages", "ok"] and rounds["Heartbeat", "ok"], alice.ping)
    await execute(database, "UPDATE stafette.message_counts SET at = at - interval '1 hour'")
    service = CountMessages()
    await service.round(runtime)
    assert (await console.message_counts()).ready == 1
    assert 0 < service.seconds <= 10
    recent = Recent()
    metrics = published_metrics(runtime, recent)
    assert (metrics["url"], metrics["sent"], metrics["clients"]) == (url, 1, 1)
    assert metrics["mean_batch"] is not None
    assert published_metrics(runtime, recent)["mean_batch"] is None  # none since
    own = [row for row in await console.brokers() if row.id == runtime.broker_id]
    assert own[0].figures is not None
    assert set(own[0].figures) == set(metrics)
    assert own[0].figures["broker"] == own[0].name == runtime.name
