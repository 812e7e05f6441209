"""Messages for tests of the console."""

from __future__ import annotations

import asyncpg

from stafette.database.clients import Identity
from stafette.database.console import Console
from stafette.database.messages import LeaseRequest, NackRequest, SendRequest
from stafette.database.store import Store
from stafette.database.views import MessagePage, MessageState
from stafette.model import Draft, Leased, Selection

A_CONTEXT = 10**12  # larger than any id


async def send(store: Store, *sends: SendRequest) -> list[int]:
    ids: list[int] = []
    for answer in await store.messages.send(sends):
        assert isinstance(answer, list), answer
        ids += answer
    return ids


async def lease(store: Store, client: Identity, queue: str = "jobs") -> Leased:
    [answer] = await store.messages.lease([LeaseRequest(client.id, Selection(queue), 1000)])
    assert isinstance(answer, list), answer
    return answer[0]


async def in_every_state(store: Store, alice: Identity) -> dict[MessageState, int]:
    """One message of each kind in jobs: its id by state."""
    held_id, dead_id, delayed_id, ready_id = await send(
        store,
        SendRequest(alice.id, Draft(("jobs",), b"held", priority=9)),
        SendRequest(alice.id, Draft(("jobs",), b"dead", priority=8)),
        SendRequest(alice.id, Draft(("jobs",), b"delayed", delay=1000)),
        SendRequest(
            alice.id, Draft(("jobs",), b"ready", receiver="bob", context=A_CONTEXT, headers={"a": "b"}, ttl=1000)
        ),
    )
    held, died = await lease(store, alice), await lease(store, alice)
    assert (held.message.id, died.message.id) == (held_id, dead_id)
    assert await store.messages.nack([NackRequest(alice.id, died.message.id, died.token)]) == [None]
    return {"ready": ready_id, "delayed": delayed_id, "leased": held_id, "dead": dead_id}


async def all_pages(console: Console, queue: str, limit: int, **options: object) -> list[MessagePage]:
    pages = [await console.messages(queue, limit=limit, **options)]  # type: ignore[arg-type]
    while pages[-1].next:
        pages.append(await console.messages(queue, limit=limit, after=pages[-1].next, **options))  # type: ignore[arg-type]
    return pages


def ids(page: MessagePage) -> list[int]:
    return [message.id for message in page.messages]


async def fill(url: str, queue: str, count: int, *, body: str = "'body'::bytea") -> None:
    """Many messages of alice for anyone, of all priorities, numbered n from 1."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        f"""
        INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)
        SELECT nextval('stafette.message_id'), q.store_id, 0, c.id, n % 10, 0, now(), {body}
        FROM stafette.queues AS q, stafette.clients AS c, generate_series(1, $2) AS n
        WHERE q.name = $1 AND c.name = 'alice'
        """,
        queue,
        count,
    )
    await connection.close()
