"""What a server must be for an answered send to last: it takes writes, and its commits wait for the disk.

Asked on every new connection, because the server behind a URL changes when a standby is promoted, and of the listening
connection again and again, because settings change while connections are open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.errors import InternalError, Unavailable

if TYPE_CHECKING:
    from stafette.database.connect import Connection

DURABLE = {"fsync": ("on",), "full_page_writes": ("on",), "synchronous_commit": ("on", "remote_apply")}
"""The values with which an answered send is on every disk that it should be on.

A commit with `local` does not wait for a synchronous standby, and with `remote_write` not for the standby's disk. Both
are refused without a standby too: one can be added at any time, and connections that are open would not notice.
"""

_SETTINGS = f"""
    SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
           ARRAY[{", ".join(f"current_setting('{name}')" for name in DURABLE)}]
"""


async def require_suitable(
    connection: Connection, *, unsafe_durability: bool = False, seconds: float | None = None
) -> None:
    """Raise when the server takes no writes, or would answer before a commit is on disk; one query for both."""
    read_only, values = await connection.fetchrow(_SETTINGS, timeout=seconds) or (True, ())
    if read_only:
        raise Unavailable(
            "the database takes no writes, as a standby does; name the primary in the URL, or promote this server",
            outcome="not done",
        )
    for (name, durable), value in zip(DURABLE.items(), values, strict=True):
        if value not in durable and not unsafe_durability:
            raise InternalError(
                f"the database runs with {name} = {value}, so an answered send could be lost;"
                f" set it to {durable[0]}, or accept that with --unsafe-durability",
                outcome="not done",
            )
