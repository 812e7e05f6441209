"""Queues: created, deleted, purged, looked up and counted for clients."""

from __future__ import annotations

from typing import Any

import msgspec

from stafette.database.pool import Pool
from stafette.errors import ClientNotFound, QueueNotFound, RequestTimeout, TryAgain
from stafette.model import Queue, QueueOptions

DEFAULT_OPTIONS = QueueOptions()

PURGE_STEP = 1000
"""Messages that one step of a purge looks at, where some have to stay: a few milliseconds."""

_QUEUE = ", ".join(name if name == "messages" else f"(queue).{name}" for name in Queue.__struct_fields__)
"""The columns of a queue as functions answer with it, in the order of its fields."""


class Counts(msgspec.Struct, frozen=True):
    """Number of messages of a queue in each state."""

    ready: int
    delayed: int
    leased: int
    dead: int


async def count_discarded(pool: Pool, store: int) -> int:
    """How many messages a purge has hidden. It is a call of its own, after the lock was given back."""
    try:
        return int(await pool.value("SELECT stafette.count_discarded($1)", store))
    except TryAgain as error:
        raise RequestTimeout(
            "the queue is purged, but the number of messages could not be counted; nothing is left to do",
            outcome="done",
        ) from error


class Queues:
    """The queues of one database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(
        self,
        client: int,
        name: str,
        options: QueueOptions = DEFAULT_OPTIONS,
        *,
        exist_ok: bool = False,
        session: int | None = None,
        request: int | None = None,
    ) -> Queue:
        """Create a queue. The same request of a session may do so again."""
        arguments = (client, name, options, exist_ok, session, request)
        [queue] = await self._queues("create_queue($1, $2, $3, $4, $5, $6)", *arguments)
        return queue

    async def delete(self, client: int, name: str, *, force: bool = False) -> None:
        """Delete an empty queue, or with force any, with all its messages."""
        await self._pool.value_alone("SELECT stafette.delete_queue($1, $2, $3)", client, name, force)

    async def purge(self, client: int, name: str) -> int:
        """Remove what is ready or delayed in a queue, but for what others have sent to others; returns the number.

        Without messages for others all are hidden at once, for upkeep to delete; otherwise they are deleted in steps.
        """
        store = await self._pool.value_alone("SELECT stafette.purge($1, $2)", client, name)
        return await self._purge_by_steps(client, name) if store is None else await count_discarded(self._pool, store)

    async def _purge_by_steps(self, client: int, name: str) -> int:
        messages, reached = 0, None
        while True:
            try:
                [(deleted, reached)] = await self._pool.fetch(
                    "SELECT * FROM stafette.purge_step($1, $2, $3, $4)", client, name, reached, PURGE_STEP
                )
            except TryAgain as error:
                raise RequestTimeout(
                    f"the queue is purged in part, of {messages} messages; purge it again", outcome="unknown"
                ) from error
            messages += int(deleted)
            if reached is None:
                return messages

    async def get(self, name_or_id: str | int) -> Queue:
        """One queue."""
        name, number = (name_or_id, None) if isinstance(name_or_id, str) else (None, name_or_id)
        queues = await self._queues("find_queue($1, $2)", name, number)
        if not queues:
            raise QueueNotFound(f"there is no queue {name_or_id}; create it first")
        return queues[0]

    async def personal(self, client: str) -> Queue:
        """The personal queue of a client."""
        queues = await self._queues("personal_queue($1)", client)
        if not queues:
            raise ClientNotFound(f"there is no client {client}")
        return queues[0]

    async def all(self, *, after: str = "", limit: int | None = None) -> list[Queue]:
        """Queues by name."""
        return await self._queues("list_queues($1, $2)", after, limit)

    async def waiting(self, client: int, *, limit: int | None = None) -> list[Queue]:
        """The queues that hold messages addressed to this client, with how many."""
        return await self._queues("waiting_queues($1, $2)", client, limit)

    async def count(self, name: str) -> Counts:
        """Number of messages of a queue in each state."""
        rows = await self._pool.fetch("SELECT * FROM stafette.count_messages($1)", name)
        return Counts(*rows[0])

    async def _queues(self, call: str, *arguments: Any) -> list[Queue]:
        rows = await self._pool.fetch(f"SELECT {_QUEUE} FROM stafette.{call}", *arguments)  # noqa: S608  # our own names
        return [Queue(*row) for row in rows]
