"""Who holds a lock that is in the way of brokers, or of those who delete and purge.

It reads what PostgreSQL says of itself, and touches no table of ours: so it waits for none of these locks.
"""

from __future__ import annotations

import msgspec

from stafette.database.connect import Connection

HOLD_SECONDS = 1.0
"""Our own functions hold such locks for some milliseconds."""

# The tables that stand for a lock have no other use, so any mode counts, but for that of pg_dump. On all others only a
# mode counts that keeps somebody from writing; no broker takes one. Counting all messages may take long. Since when
# transactions of other roles are open, our role may not see.
_HOLDERS = """
SELECT l.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''),
       string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname),
       coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(a.xact_start, p.prepared))), 0)::double precision
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation AND c.relkind = 'r' AND c.relname <> 'count_lock'
JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = 'stafette'
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts AS p ON l.pid IS NULL AND l.virtualtransaction = '-1/' || p.transaction
WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND CASE WHEN l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
           THEN coalesce(a.xact_start, p.prepared, '-infinity') < clock_timestamp() - $1 * interval '1 second'
           WHEN c.relname ~ '_lock(_\\d+)?$' AND l.mode <> 'AccessShareLock'
           THEN coalesce(a.xact_start, p.prepared) < clock_timestamp() - $1 * interval '1 second'
      END
GROUP BY l.pid, a.usename, a.application_name, l.virtualtransaction
ORDER BY 5 DESC, 1
"""


class LockHolder(msgspec.Struct, frozen=True):
    """A transaction that holds a lock for long."""

    pid: int | None
    """Its process; None: it is a prepared transaction."""
    role: str
    application: str
    tables: str
    seconds: float
    """How long it has been open; 0 when our role may not see that."""

    def __str__(self) -> str:
        who = f"process {self.pid}" if self.pid is not None else "a prepared transaction"
        details = ", ".join(part for part in (self.role, self.application) if part)
        return f"{who}{f' ({details})' if details else ''} has locked {self.tables} for {self.seconds:.0f} s"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.pid is None:
            return "commit or roll it back; pg_prepared_xacts has its name"
        return f"end its transaction, or run SELECT pg_terminate_backend({self.pid})"


async def lock_holders(connection: Connection) -> list[LockHolder]:
    """Those who have held one of our locks for longer than HOLD_SECONDS, the longest first."""
    return [LockHolder(*row) for row in await connection.fetch(_HOLDERS, HOLD_SECONDS)]
