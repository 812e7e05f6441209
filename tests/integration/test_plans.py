"""Every hot query reads the heads of lanes in index order, however many messages are stored.

Two guards: the plans made inside the functions have no sequential scan of messages and no sort between a lane and its
limit; and what a pop touches, as PostgreSQL counts it, does not grow with the number of stored messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from stafette.database.connect import prepare_connection
from stafette.database.store import Store
from stafette.model import QueueOptions
from tests.support.query_plans import Scan, scans

READS = "SELECT * FROM stafette.{}($1, $2, $3, $4, $5, $6, NULL, 1e7::bigint)"
ONE = [1]
# What each kind of read asks for: client, queue, sender, context, by arrival, count.
ASKS: dict[str, tuple[object, ...]] = {
    "queue": (ONE, ["jobs"], [None], [None], [False], ONE),
    "queue, own lane filled": ([2], ["jobs"], [None], [None], [False], ONE),
    "queue by arrival": (ONE, ["jobs"], [None], [None], [True], ONE),
    "queue that excludes own": (ONE, ["others"], [None], [None], [False], ONE),
    "sender": (ONE, [None], ["alice"], [None], [False], ONE),
    "sender and queue": (ONE, ["jobs"], ["alice"], [None], [False], ONE),
    "context": (ONE, [None], [None], [100], [False], ONE),
    "context of many": (ONE, [None], [None], [7], [False], ONE),
    "context of many by arrival": (ONE, [None], [None], [7], [True], ONE),
    "context of many and queue": (ONE, ["jobs"], [None], [7], [False], ONE),
}
CALLS: dict[str, tuple[str, tuple[object, ...]]] = {
    **{
        f"{verb} {kind}": (READS.format(f"{verb}_batch"), ask)
        for verb in ("receive", "peek")
        for kind, ask in ASKS.items()
    },
    "lease": (
        "SELECT * FROM stafette.lease_batch($1, $2, $3, $4, $5, $6, NULL, 1e7::bigint, $7, $8)",
        (*ASKS["queue"], [30.0], [7]),
    ),
    "receive in a session": (
        "SELECT * FROM stafette.receive_batch($1, $2, $3, $4, $5, $6, NULL, 1e7::bigint, $7, $8, $9, $10, $11, $12)",
        (*ASKS["queue"], 1, [1], [1], [1], [1], [7]),
    ),
    "repeat": ("SELECT * FROM stafette.replay_batch($1, $2, $3, $4, 1e7::bigint)", ([1], [1], [7], [False])),
    "give back what was received": ("SELECT stafette.give_back_received($1, $2, $3)", ([1], [1], [7])),
    "forget what was seen": ("SELECT stafette.forget_seen($1, $2)", ([1], [7])),
    "forget what was received": ("SELECT * FROM stafette.forget_received(60, 10)", ()),
    "send": (
        "SELECT * FROM stafette.send_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        ([1], [1], ["jobs"], ["bob"], [5], [None], [None], [b""], [None], [None], [None], [False]),
    ),
    "browse": ("SELECT * FROM stafette.browse(NULL, 'jobs', 500, 1, 1e7::bigint)", ()),
    "waiting queues": ("SELECT * FROM stafette.waiting_queues(3)", ()),
    "ack": ("SELECT stafette.ack_batch($1, $2, $3)", ([1], [1], [1])),
    "nack": ("SELECT stafette.nack_batch($1, $2, $3, $4)", ([1], [1], [1], [None])),
    "extend": ("SELECT stafette.extend_batch($1, $2, $3, $4)", ([1], [1], [1], [30.0])),
    "expire leases": ("SELECT * FROM stafette.expire_leases(10)", ()),
    "promote delayed": ("SELECT * FROM stafette.promote_delayed(10)", ()),
    "ready asks": (
        "SELECT stafette.ready_asks($1, $2, $3, $4)",
        (
            [1, 2, 2, 1, 1, 1],
            ["jobs", "jobs", "others", None, "others", None],
            [None, None, None, "alice", "alice", None],
            [None, None, None, None, None, 100],
        ),
    ),
    "purge, is it private": (
        "SELECT stafette.has_private_messages(q.store_id, 1) FROM stafette.queues AS q WHERE q.name = 'jobs'",
        (),
    ),
    "purge by steps, delayed": ("SELECT * FROM stafette.purge_step(1, 'jobs', NULL, 10)", ()),
    "purge by steps, ready": ("SELECT * FROM stafette.purge_step(1, 'jobs', ARRAY[1e9, -1, 0, 0]::bigint[], 10)", ()),
    "drop expired": ("SELECT stafette.drop_expired(10)", ()),
    "forget keys": ("SELECT stafette.forget_keys(10)", ()),
}
MESSAGE_TABLES = {"ready", "delayed", "leased", "dead", "received"}
# Indexes that may be read without a limit: what waits for one client is counted, and a lease is found by its id, or by
# the request that took it.
READ_TO_THE_END = {"ready_by_receiver", "leased_pkey", "leased_by_request", "delayed_pkey", "received_pkey"}
FILL = """
    INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, body)
    SELECT nextval('stafette.message_id'), q.store_id, CASE WHEN n % 7 = 0 AND q.name = 'jobs' THEN 2 ELSE 0 END,
           CASE WHEN q.name = 'jobs' THEN 1 ELSE 2 END, n % 10, 0,
           CASE WHEN n % 100 = 0 THEN n WHEN n % 10 = 3 THEN 7 END, now(), 'body'
    FROM generate_series(1, $1) AS n JOIN stafette.queues AS q ON q.name = (ARRAY['jobs', 'others'])[n % 3 % 2 + 1]
    """
# Each request of a session has received one message, or leased one.
FILL_RECEIVED = """
    INSERT INTO stafette.received (id, queue_id, receiver_id, sender_id, rank, deliveries, arrived_at, body,
                                   client_id, session, request, received_at)
    SELECT -n, 1, 0, 1, 5, 0, now(), 'body', 1, n % 100, n / 100, now() FROM generate_series(1, $1) AS n
    """
FILL_LEASED = """
    INSERT INTO stafette.leased (id, queue_id, receiver_id, sender_id, rank, deliveries, arrived_at, body, token,
                                 holder_id, leased_until, session, request)
    SELECT -n, 1, 0, 1, 5, 0, now(), 'body', n, 1, now() + interval '1 hour', n % 100, n / 100
    FROM generate_series(1, $1) AS n
    """
ROWS_AT_MOST = 200  # ten ranks in two lanes of two queues are looked at, and what is found is fetched again


@pytest.fixture(params=[0, 1_000, 1_000_000], ids=["empty", "thousand", "million"])
async def connection(
    request: pytest.FixtureRequest, database: str
) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to a database that holds so many messages, for anyone and for bob, some with contexts."""
    async with await Store.open(database) as store:
        alice = await store.clients.register("alice")
        await store.clients.register("bob")
        await store.clients.register("carol")
        for name in ("jobs", "others"):
            await store.queues.create(alice.id, name, QueueOptions(exclude_own=name == "others"))
    connection = await asyncpg.connect(database)
    await prepare_connection(connection)
    for fill in (FILL, FILL_RECEIVED, FILL_LEASED):
        await connection.execute(fill, request.param if fill is FILL else request.param // 10)
    if request.param:
        await connection.execute("VACUUM ANALYZE stafette.ready, stafette.received, stafette.leased")
    yield connection
    await connection.close()


def bad(scan: Scan) -> bool:
    """Whether a scan of messages may read more than the head of a lane."""
    if scan.kind in ("TIDSCAN", "BITMAPHEAPSCAN") or scan.index in READ_TO_THE_END:
        return False  # a bitmap's index is a scan of its own, and judged there
    if scan.kind not in ("INDEXSCAN", "INDEXONLYSCAN"):
        return True
    to_limit = scan.above[: scan.above.index("LIMIT")] if "LIMIT" in scan.above else scan.above
    return any(kind in ("SORT", "HASH", "INCREMENTALSORT") for kind in to_limit)


@pytest.mark.slow
async def test_plans_read_heads_in_index_order(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    relations = await connection.fetch(
        "SELECT oid, relname FROM pg_class WHERE relnamespace = 'stafette'::regnamespace"
    )
    names = {str(oid): name for oid, name in relations}
    plans: list[str] = []
    connection.add_log_listener(lambda _, message: plans.append(message.detail or ""))
    await connection.execute("SET client_min_messages = log; SET debug_print_plan = on; SET debug_pretty_print = off")

    for name, (sql, arguments) in CALLS.items():
        plans.clear()
        await connection.execute("DISCARD PLANS")
        async with connection.transaction():
            await connection.fetch(sql, *arguments)
        seen = [
            scan
            for plan in plans
            if plan.startswith("{PLANNEDSTMT")
            for scan in scans(plan, names)
            if scan.table in MESSAGE_TABLES
        ]
        assert seen or name in ("send", "forget keys"), f"{name}: no plan was seen"
        assert not [str(scan) for scan in seen if bad(scan)], name


@pytest.mark.slow
async def test_what_a_call_touches_does_not_grow_with_the_queue(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    for name in CALLS:
        assert await rows_touched(connection, name) <= ROWS_AT_MOST, name


async def rows_touched(connection: asyncpg.Connection[asyncpg.Record], name: str) -> int:
    """Messages that a call fetches through indexes, as PostgreSQL counts them; it may not read a whole table."""
    sql, arguments = CALLS[name]
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetch(sql, *arguments)
    touched = await connection.fetchrow(
        "SELECT sum(seq_scan) AS scans, sum(idx_tup_fetch) AS rows FROM pg_stat_xact_user_tables"
        " WHERE schemaname = 'stafette' AND relname = ANY ($1)",
        list(MESSAGE_TABLES),
    )
    await transaction.rollback()
    assert touched is not None
    assert touched["scans"] == 0, name
    return int(touched["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("connection", [0], ids=["empty"], indirect=True)
async def test_a_plan_from_when_all_was_empty_does_when_queues_are_full(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    # the planner now knows that there is nothing
    await connection.execute("VACUUM ANALYZE stafette.ready, stafette.received, stafette.leased")
    for name in CALLS:
        await rows_touched(connection, name)
    for fill in (FILL, FILL_RECEIVED, FILL_LEASED):
        await connection.execute(fill, 10_000)
    for name in CALLS:
        assert await rows_touched(connection, name) <= ROWS_AT_MOST, name


@pytest.mark.slow
@pytest.mark.parametrize("call", ["ack", "nack", "extend", "expire leases"])
async def test_a_lease_is_found_by_its_id_whatever_the_statistics_say(database: str, call: str) -> None:
    async with await Store.open(database) as store:
        alice = await store.clients.register("alice")
        await store.queues.create(alice.id, "jobs")
    connection = await asyncpg.connect(database)
    await prepare_connection(connection)
    fill = """
        INSERT INTO stafette.leased (id, queue_id, receiver_id, sender_id, rank, deliveries, arrived_at, body, token,
                                     holder_id, leased_until)
        SELECT n, 1, 0, 1, 5, 1, now(), 'body', n, 1, now() + $1 * interval '1 hour' FROM generate_series(1, 5000) AS n
        """
    await connection.execute(fill, -1)
    await connection.execute("ANALYZE stafette.leased")  # the planner now believes that all leases have run out
    await connection.execute("TRUNCATE stafette.leased")
    await connection.execute(fill, 1)
    transaction = connection.transaction()
    await transaction.start()
    sql, arguments = CALLS[call]
    await connection.fetch(sql, *arguments)
    touched = await connection.fetchrow(
        "SELECT idx_tup_fetch AS rows, n_tup_upd + n_tup_del AS changed FROM pg_stat_xact_user_tables"
        " WHERE schemaname = 'stafette' AND relname = 'leased'"
    )
    await transaction.rollback()
    await connection.close()
    assert touched is not None
    assert touched["changed"] == (0 if call == "expire leases" else 1)
    assert touched["rows"] <= 3
