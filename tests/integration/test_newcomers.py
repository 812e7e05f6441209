"""Messages that are newer than the read that finds them, and whose sender or queue may be, too."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stafette.database import schema
from stafette.database.messages import LeaseRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.model import Draft, Message, Selection
from tests.support.waiting import until

HELD_UP = """
    ALTER FUNCTION stafette.take_batch(stafette.ask[], bigint) RENAME TO take_batch_at_last;
    CREATE FUNCTION stafette.take_batch(asks stafette.ask[], budget bigint) RETURNS TABLE (
        place integer, id bigint, store_id integer, receiver_id integer, sender_id integer, rank smallint,
        deliveries smallint, context bigint, arrived_at timestamptz, expires_at timestamptz, headers jsonb, body bytea,
        fault integer, detail text
    ) LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(1);
        RETURN QUERY SELECT * FROM stafette.take_batch_at_last(asks, budget);
    END
    $$;
    """
"""What a busy machine does now and then: the read has begun, and goes on when something else has happened."""


@pytest.mark.parametrize("verb", ["receive", "lease"])
async def test_a_read_knows_who_came_after_it_had_begun(new_database: str, verb: str) -> None:
    await schema.migrate(new_database)
    holder = await asyncpg.connect(new_database)
    await holder.execute(HELD_UP)
    async with await Store.open(new_database) as store:
        reader = await store.clients.register("reader")
        await holder.execute("SELECT pg_advisory_lock(1)")
        reading = asyncio.create_task(read(store, verb, ReadRequest(reader.id, Selection(context=7))))
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        await until(lambda: holder.fetchval(waiting))
        async with asyncio.timeout(30):
            newcomer = await store.clients.register("newcomer")
            await store.queues.create(newcomer.id, "new")
            await store.messages.send([SendRequest(newcomer.id, Draft(("new",), b"hello", context=7))])
            await holder.execute("SELECT pg_advisory_unlock(1)")
            message = await reading
    await holder.close()
    assert (message.sender, message.queue, message.body) == ("newcomer", "new", b"hello")


@pytest.mark.parametrize("verb", ["receive", "lease"])
async def test_a_read_gets_what_is_for_it_and_for_anyone_in_order_though_both_came_after_it_had_begun(
    new_database: str, verb: str
) -> None:
    await schema.migrate(new_database)
    holder = await asyncpg.connect(new_database)
    await holder.execute(HELD_UP)
    async with await Store.open(new_database) as store:
        reader, sender = await store.clients.register("reader"), await store.clients.register("sender")
        await store.queues.create(sender.id, "jobs")
        await holder.execute("SELECT pg_advisory_lock(1)")
        reading = asyncio.create_task(read(store, verb, ReadRequest(reader.id, Selection("jobs"))))
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        await until(lambda: holder.fetchval(waiting))
        async with asyncio.timeout(30):
            await store.messages.send(
                [SendRequest(sender.id, Draft(("jobs",), b"first", receiver="reader")),
                 SendRequest(sender.id, Draft(("jobs",), b"second"))]
            )  # fmt: skip
            await holder.execute("SELECT pg_advisory_unlock(1)")
            message = await reading
    await holder.close()
    assert message.body == b"first"


async def read(store: Store, verb: str, ask: ReadRequest) -> Message:
    """The one message that there is."""
    if verb == "receive":
        [messages] = await store.messages.receive([ask])
        assert not isinstance(messages, StafetteError)
        return messages[0]
    [leases] = await store.messages.lease([LeaseRequest(ask.client, ask.selection)])
    assert not isinstance(leases, StafetteError)
    return leases[0].message
