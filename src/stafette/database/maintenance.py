"""Maintenance: what brokers do now and then so that the tables stay in order, and what they record for operators."""

from __future__ import annotations

import msgspec

from stafette.database.pool import Pool

SLOT_SECONDS = 10.0
"""The finest slots of the history."""

COUNT_SECONDS = 600.0
"""How long counting may take: with very many messages longer than any other call, and nobody waits for it."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has done: so many of each, or in seconds added up."""

    sent: int = 0
    received: int = 0
    failed: int = 0
    refused: int = 0
    requests: int = 0
    batches: int = 0
    queue_seconds: float = 0.0
    database_seconds: float = 0.0

    def __sub__(self, before: Work) -> Work:
        """What was added since."""
        return Work(**{field: getattr(self, field) - getattr(before, field) for field in self.__struct_fields__})


class Maintenance:
    """Each round takes a bounded number of rows; several brokers may call the same one at once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def expire_leases(self, *, limit: int) -> dict[str | None, int]:
        """Give back messages whose lease ran out; returns how many by queue.

        Under None, here and in `promote_delayed`, are those of deleted queues and clients, which nobody gets.
        """
        return dict(await self._pool.fetch("SELECT * FROM stafette.expire_leases($1)", limit))  # type: ignore[arg-type]

    async def promote_delayed(self, *, limit: int) -> dict[str | None, int]:
        """Make delayed messages ready that are due; returns how many by queue."""
        return dict(await self._pool.fetch("SELECT * FROM stafette.promote_delayed($1)", limit))  # type: ignore[arg-type]

    async def drop_expired(self, *, limit: int) -> int:
        """Delete messages past their time to live; returns their number."""
        return int(await self._pool.value("SELECT stafette.drop_expired($1)", limit))

    async def forget_received(self, *, seconds: float, limit: int) -> tuple[int, int]:
        """Delete what was received so long ago, and not named as seen; returns how much, and roughly what is left."""
        [(deleted, left)] = await self._pool.fetch("SELECT * FROM stafette.forget_received($1, $2)", seconds, limit)
        return deleted, left

    async def delete_discarded(self, *, limit: int, grace: float) -> tuple[int, int]:
        """Delete messages that were purged, or whose queue or receiver was deleted, so many seconds ago.

        Returns their number, and how many entries the list of what is to be deleted still has.
        """
        [[messages, entries]] = await self._pool.fetch("SELECT * FROM stafette.delete_discarded($1, $2)", limit, grace)
        return int(messages), int(entries)

    async def forget_keys(self, *, limit: int) -> int:
        """Delete idempotency keys past their time; returns their number."""
        return int(await self._pool.value("SELECT stafette.forget_keys($1)", limit))

    async def forget_sessions(self, *, limit: int) -> int:
        """Delete sessions that nobody can continue any more; returns their number."""
        return int(await self._pool.value("SELECT stafette.forget_sessions($1)", limit))

    async def count_all_messages(self, *, pause: float, force: bool = False) -> bool:
        """Count all messages, unless another broker does or it is too soon after the last time; True when done."""
        sql = "SELECT stafette.count_all_messages($1, $2)"
        [[done]] = await self._pool.fetch(sql, pause, force, seconds=COUNT_SECONDS)
        return bool(done)

    async def add_history(self, work: Work) -> None:
        """Add what a broker did in the last slot."""
        await self._pool.fetch(
            "SELECT stafette.add_history($1, $2, $3, $4, $5, $6, $7, $8)", *msgspec.structs.astuple(work)
        )

    async def forget_history(self, *, limit: int) -> int:
        """Delete history past its time, up to so many rows of each kind; returns their number."""
        return int(await self._pool.value("SELECT stafette.forget_history($1)", limit))
