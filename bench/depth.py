"""Measures whether the time of a read depends on the number of stored messages; it should not.

Two databases on one server hold few and many messages in one queue. Reads of both are interleaved and compared as a
ratio of medians, so that other load on the machine affects both alike. Popped messages are sent again, untimed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from statistics import median

import asyncpg

from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.model import Draft, Message, Selection

QUEUE = "deep"
CLIENTS = 10
BODY = b"x" * 200
CONTEXT_EVERY = 10  # one message in so many has a context, of its own
BATCHES = (1, 32)

FILL = """
INSERT INTO stafette.ready
    (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
SELECT nextval('stafette.message_id'), $1::integer, 0, $2::integer + n % $3::integer, n / 7 % 10, 0,
       CASE WHEN n % $4::integer = 0 THEN n END, now(), NULL, NULL, $5::bytea
FROM generate_series(1, $6::integer) AS n
"""


@dataclass(frozen=True)
class Effort:
    """Numbers of messages in the small and the large queue, and how often to read each."""

    few: int
    many: int
    repetitions: int


class Depth:
    """A database with a given number of messages in one queue."""

    def __init__(self, store: Store, client: int, messages: int) -> None:
        self._store, self._client, self._messages = store, client, messages
        self._contexts = Random(0)

    @classmethod
    async def fill(cls, server: EmbeddedPostgres, messages: int) -> Depth:
        url = server.url.replace("@/stafette?", f"@/depth_{messages}?")
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"CREATE DATABASE depth_{messages}")
        await connection.close()
        await schema.migrate(url)
        store = await Store.open(url, connections=1)
        clients = [(await store.clients.register(f"client {number}")).id for number in range(CLIENTS)]
        queue = await store.queues.create(clients[0], QUEUE)
        connection = await asyncpg.connect(url)
        await connection.execute(FILL, queue.id, clients[0], CLIENTS, CONTEXT_EVERY, BODY, messages)
        await connection.execute("VACUUM ANALYZE stafette.ready")
        await connection.close()
        return cls(store, clients[0], messages)

    async def close(self) -> None:
        await self._store.close()

    def context(self) -> int:
        return self._contexts.randrange(1, self._messages // CONTEXT_EVERY) * CONTEXT_EVERY

    async def pop(self, size: int) -> float:
        """Seconds to pop so many messages; then they are sent again, to the end of the queue."""
        seconds, messages = await self._time(
            self._store.messages.receive, [ReadRequest(self._client, Selection(QUEUE))] * size
        )
        resends = [
            SendRequest(
                self._client, Draft((message.queue,), message.body, priority=message.priority, context=message.context)
            )
            for message in messages
        ]
        await self._store.messages.send(resends)
        return seconds

    async def peek_by_sender(self, size: int) -> float:
        requests = [ReadRequest(self._client, Selection(QUEUE, f"client {number % CLIENTS}")) for number in range(size)]
        return (await self._time(self._store.messages.peek, requests))[0]

    async def peek_by_context(self, size: int) -> float:
        return (
            await self._time(
                self._store.messages.peek,
                [ReadRequest(self._client, Selection(context=self.context())) for _ in range(size)],
            )
        )[0]

    async def peek_by_arrival(self, size: int) -> float:
        return (
            await self._time(
                self._store.messages.peek, [ReadRequest(self._client, Selection(QUEUE, order="arrival"))] * size
            )
        )[0]

    async def _time(
        self,
        read: Callable[[Sequence[ReadRequest]], Awaitable[list[list[Message] | StafetteError]]],
        requests: list[ReadRequest],
    ) -> tuple[float, list[Message]]:
        started = time.perf_counter()
        answers = await read(requests)
        seconds = time.perf_counter() - started
        messages = [message for answer in answers if isinstance(answer, list) for message in answer]
        if len(messages) != len(requests):
            raise RuntimeError(f"{len(requests)} reads returned {len(messages)} messages: {answers}")
        return seconds, messages


READS: dict[str, Callable[[Depth, int], Awaitable[float]]] = {
    "pop": Depth.pop,
    "peek by sender": Depth.peek_by_sender,
    "peek by context": Depth.peek_by_context,
    "peek by arrival": Depth.peek_by_arrival,
}


async def measure(
    server: EmbeddedPostgres, effort: Effort, say: Callable[[str], None]
) -> dict[str, dict[str, float | int]]:
    """Milliseconds of each kind of read at each depth, and their ratio."""
    depths = []
    for messages in (effort.few, effort.many):
        say(f"depth: storing {messages:,} messages")
        depths.append(await Depth.fill(server, messages))
    times: dict[str, dict[str, float | int]] = {}
    for name, read in READS.items():
        for size in BATCHES:
            say(f"depth: {name}, {size} at a time")
            few, many = await _measure_interleaved(depths, read, size, effort.repetitions)
            times[name if size == 1 else f"{name} × {size}"] = {"few_ms": few, "many_ms": many, "ratio": many / few}
    for depth in depths:
        await depth.close()
    return times


async def _measure_interleaved(
    depths: list[Depth], read: Callable[[Depth, int], Awaitable[float]], size: int, repetitions: int
) -> list[float]:
    """The median milliseconds at each depth; the depths take turns in going first."""
    seconds: list[list[float]] = [[] for _ in depths]
    warm_up = repetitions // 10 + 1
    for repetition in count(-warm_up):
        if repetition == repetitions:
            break
        turns = list(zip(depths, seconds, strict=True))
        for depth, durations in turns if repetition % 2 else reversed(turns):
            duration = await read(depth, size)
            if repetition >= 0:
                durations.append(duration)
    return [median(durations) * 1000 for durations in seconds]
