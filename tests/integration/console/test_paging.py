"""However long a queue is and wherever in it one looks, a page costs the same; and a filter only what it may cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from stafette.database.connect import prepare_connection
from stafette.database.store import Store
from tests.support.databases import VERSIONS, Databases, databases_of

MESSAGES = 200_000
PAGE = 50
ROWS_AT_MOST = 8 * PAGE  # each is found and then shown, and a few lanes are probed
BUDGET = 30_000

CALL = "SELECT place, looked_at FROM stafette.message_page('jobs', $1, $2, $3, $4, $5, NULL, $6, $7, $8, $9)"


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Databases:
    return databases_of(request)


@pytest.fixture(scope="module", params=["analysed", "believed empty"])
def database(server: Databases, request: pytest.FixtureRequest) -> Iterator[str]:
    """A queue of 200,000 messages of two senders, for anyone and for some, with statistics that are right or wrong."""
    asyncio.run(_fill(server, analysed=request.param == "analysed"))
    yield server.migrated
    asyncio.run(_execute(server.migrated, "ALTER TABLE stafette.ready RESET (autovacuum_enabled)"))


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """To look, and to change nothing."""
    connection = await asyncpg.connect(database)
    await prepare_connection(connection)
    yield connection
    await connection.close()


async def _fill(server: Databases, *, analysed: bool) -> None:
    await server.clear()
    async with await Store.open(server.migrated) as store:
        alice = await store.clients.register("alice")
        for name in ("bob", "carol"):
            await store.clients.register(name)
        await store.queues.create(alice.id, "jobs")
    await _execute(
        server.migrated,
        "ALTER TABLE stafette.ready SET (autovacuum_enabled = off)",
        "ANALYZE stafette.ready",
        f"""
        INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, body)
        SELECT n, q.store_id, CASE WHEN n % 7 = 0 THEN 2 ELSE 0 END, CASE WHEN n % 1000 = 0 THEN 2 ELSE 1 END,
               n % 10, 0, CASE WHEN n % 10000 = 0 THEN n WHEN n % 2 = 0 THEN 0 END, now(), 'body'
        FROM generate_series(1, {MESSAGES}) AS n, stafette.queues AS q WHERE q.name = 'jobs'
        """,
        f"SELECT setval('stafette.message_id', {MESSAGES})",
        *(["VACUUM ANALYZE stafette.ready"] if analysed else []),
    )


async def _execute(database: str, *statements: str) -> None:
    connection = await asyncpg.connect(database)
    for sql in statements:
        await connection.execute(sql)
    await connection.close()


async def touched(
    connection: asyncpg.Connection[asyncpg.Record], sql: str, *arguments: object
) -> tuple[list[asyncpg.Record], int]:
    """The rows that a call returns, and how many it looked at in the table or its indexes."""
    transaction = connection.transaction()
    await transaction.start()
    found = await connection.fetch(sql, *arguments)
    looked = await connection.fetchrow(
        "SELECT t.seq_scan, t.idx_tup_fetch, (SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))"
        " FROM pg_index AS i WHERE i.indrelid = t.relid) AS entries"
        " FROM pg_stat_xact_user_tables AS t WHERE t.schemaname = 'stafette' AND t.relname = 'ready'"
    )
    await transaction.rollback()
    assert looked is not None
    assert looked["seq_scan"] == 0
    return found, max(looked["idx_tup_fetch"], looked["entries"])


async def page(
    connection: asyncpg.Connection[asyncpg.Record],
    *,
    sender: str | None = None,
    receiver: str | None = None,
    context: int | None = None,
    priority: int | None = None,
    newer: float | None = None,
    text: bytes | None = None,
    after: list[int] | None = None,
) -> tuple[list[asyncpg.Record], int]:
    arguments = ("ready", sender, receiver, context, priority, newer, text, after, PAGE + 1)
    return await touched(connection, CALL, *arguments)


@pytest.mark.slow
async def test_a_page_costs_the_same_at_the_start_and_at_the_end(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    first, at_start = await page(connection)
    # The key of the message that 60 others follow.
    place = list(
        await connection.fetchrow(
            "SELECT receiver_id, rank, id FROM stafette.ready ORDER BY store_id DESC, receiver_id DESC, rank DESC,"
            " id DESC OFFSET 60 LIMIT 1"
        )
        or ()
    )
    last, at_end = await page(connection, after=place)
    assert len(first) == len(last) == PAGE + 1
    assert at_start <= ROWS_AT_MOST
    assert at_end <= ROWS_AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        {"sender": "bob"},
        {"sender": "bob", "receiver": "bob"},
        {"receiver": "bob"},
        {"receiver": "carol"},
        {"context": 10_000},
        {"context": 4711},
        {"priority": 1},
        {"priority": 1, "receiver": "bob"},
    ],
    ids=str,
)
async def test_a_filter_with_an_index_looks_at_what_it_shows(
    connection: asyncpg.Connection[asyncpg.Record], where: dict[str, object]
) -> None:
    _, looked = await page(connection, **where)  # type: ignore[arg-type]
    assert looked <= ROWS_AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize("where", [{"newer": 0.0}, {"text": b"nothing"}, {"priority": 1, "text": b"nothing"}], ids=str)
async def test_any_other_filter_looks_at_no_more_than_it_may(
    connection: asyncpg.Connection[asyncpg.Record], where: dict[str, object]
) -> None:
    found, looked = await page(connection, **where)  # type: ignore[arg-type]
    assert found[-1]["looked_at"] in (BUDGET, MESSAGES // 10)  # a tenth has the priority
    assert looked <= BUDGET + ROWS_AT_MOST


@pytest.mark.slow
async def test_a_context_that_half_of_all_have_is_no_worse(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    _, looked = await page(connection, context=0)
    assert looked <= BUDGET + 1 + 4 * PAGE + ROWS_AT_MOST


@pytest.mark.slow
async def test_what_a_client_sent_and_one_message_are_found_by_their_keys(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    for sql in (
        "SELECT place FROM stafette.client_message_page('bob', 'sent', NULL, 51)",
        "SELECT place FROM stafette.client_message_page('bob', 'waiting', NULL, 51)",
        "SELECT place FROM stafette.client_message_page('alice', 'sent', ARRAY[4, 0, 5, 100000], 51)",
        "SELECT (message).id FROM stafette.find_message('jobs', 123456)",
        "SELECT l.id FROM stafette.search_messages(123456, 20) AS l",
    ):
        found, looked = await touched(connection, sql)
        assert found, sql
        assert looked <= ROWS_AT_MOST, sql
