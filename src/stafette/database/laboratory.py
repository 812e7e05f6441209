"""What the laboratory does with a database of its own: empty it, and put it in order before a run.

A database that the laboratory has emptied bears a mark. One without the mark is emptied only if there is nothing in it:
an experiment file with the wrong URL must not cost anyone their messages.
"""

from __future__ import annotations

import contextlib

import asyncpg

from stafette.database import schema
from stafette.database.connect import Connection, connected
from stafette.database.masking import masked
from stafette.errors import InvalidRequest

MARK = "emptied by the laboratory of Stafette, which will do so again"

SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")
"""What a report says about the database."""


async def empty(url: str) -> None:
    """Leave nothing but our schema; refuse to, if the database holds somebody else's clients or queues."""
    async with connected(url) as connection:
        if not await _may_empty(connection):
            raise InvalidRequest(
                f"the database {masked(url)} holds clients and queues that the laboratory did not make; name"
                " another in `system.database`, or empty it yourself with `stafette db reset`"
            )
        operators = await _operators(connection)
        await schema.reset(url)
        await connection.execute(f"COMMENT ON SCHEMA stafette IS '{MARK}'")
        await connection.executemany("INSERT INTO stafette.operators (role, secret) VALUES ($1, $2)", operators)


async def _may_empty(connection: Connection) -> bool:
    if await connection.fetchval("SELECT to_regclass('stafette.clients')") is None:
        return True
    if await connection.fetchval("SELECT obj_description(to_regnamespace('stafette'), 'pg_namespace')") == MARK:
        return True
    return not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM stafette.clients) OR EXISTS (SELECT FROM stafette.queues)"
    )


async def _operators(connection: Connection) -> list[tuple[str, str]]:
    """Who may use the console: that is not the experiment's to change."""
    if await connection.fetchval("SELECT to_regclass('stafette.operators')") is None:
        return []
    return [tuple(row) for row in await connection.fetch("SELECT role, secret FROM stafette.operators")]


async def settle(url: str) -> dict[str, str]:
    """Let the database put itself in order before a run; returns its version and settings."""
    async with connected(url) as connection:
        await connection.execute("VACUUM (ANALYZE)")
        with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
            await connection.execute("CHECKPOINT")  # else what was preloaded would be written during the run
        return {name: await connection.fetchval("SELECT current_setting($1)", name) for name in SETTINGS}


async def identity(url: str) -> str:
    """What tells this database from any other, whatever URL leads to it."""
    async with connected(url) as connection:
        return str(
            await connection.fetchval("SELECT system_identifier || '/' || current_database() FROM pg_control_system()")
        )
