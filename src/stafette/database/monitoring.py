"""Monitoring: the whole system in numbers, counted now. For the laboratory and `stafette db status`."""

from __future__ import annotations

import msgspec

from stafette.database.pool import Pool


class Overview(msgspec.Struct, frozen=True):
    """The whole system in numbers."""

    clients: int
    online: int
    brokers: int
    queues: int
    ready: int
    delayed: int
    leased: int
    dead: int


class Statistics(msgspec.Struct, frozen=True):
    """What PostgreSQL counts for this database; all but the last three only grow."""

    commits: int
    rollbacks: int
    blocks_read: int
    blocks_hit: int
    rows_inserted: int
    rows_deleted: int
    deadlocks: int
    wal_bytes: int
    dead_rows: int
    connections: int
    active: int


class Monitoring:
    """Reads counts. It looks at every message, so it is not for pages that people open again and again."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def overview(self) -> Overview:
        """The whole system in numbers."""
        rows = await self._pool.fetch("SELECT * FROM stafette.overview()")
        return Overview(*rows[0])

    async def queue_lengths(self) -> dict[str, int]:
        """Number of ready messages in each queue that holds any."""
        return dict(await self._pool.fetch("SELECT * FROM stafette.queue_lengths()"))  # type: ignore[arg-type]

    async def statistics(self) -> Statistics:
        """PostgreSQL's own counters."""
        rows = await self._pool.fetch("SELECT * FROM stafette.statistics()")
        return Statistics(*rows[0])
