"""Brings a database to the schema this program needs.

Tables change by numbered migrations, applied once and in order. Functions are files of their own, always the newest,
put in place again whenever one of them changed. Both happen in one transaction under a lock, so any number of
processes may try at once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from stafette.database.connect import connect, translated_errors
from stafette.errors import InternalError

SQL = Path(__file__).parent / "sql"
MIGRATION_LOCK = 5746660

_STATE = """
CREATE SCHEMA IF NOT EXISTS stafette;
CREATE TABLE IF NOT EXISTS stafette.schema_state (
    one_row    boolean     PRIMARY KEY DEFAULT true CHECK (one_row),
    version    integer     NOT NULL,
    functions  text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO stafette.schema_state (version, functions) VALUES (0, '') ON CONFLICT DO NOTHING;
"""


@dataclass(frozen=True)
class Migration:
    """One step from a version to the next."""

    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """All steps in order."""
    return [
        Migration(version=int(path.stem[:4]), name=path.stem[5:], sql=path.read_text())
        for path in sorted((SQL / "migrations").glob("*.sql"))
    ]


def newest_version() -> int:
    """The schema version this program is written for."""
    return migrations()[-1].version


def functions_sql() -> str:
    """Every function, as one script. Bodies are not checked while loading, so the order of files does not matter."""
    files = (path.read_text() for path in sorted((SQL / "functions").glob("*.sql")))
    return "SET LOCAL check_function_bodies = off;\n" + "\n".join(files)


def functions_checksum() -> str:
    """What tells one set of functions from another."""
    return hashlib.sha256(functions_sql().encode()).hexdigest()


@dataclass(frozen=True)
class Change:
    """What `migrate` did: versions before and after, and whether functions were replaced."""

    before: int
    after: int
    functions: bool


async def migrate(url: str, *, to: int | None = None) -> Change:
    """Apply what is missing, up to the newest version or the one asked for."""
    connection = await connect(url)
    try:
        with translated_errors(url):
            async with connection.transaction():
                return await _migrate(connection, to or newest_version())
    finally:
        await connection.close()


async def _migrate(connection: asyncpg.Connection[asyncpg.Record], to: int) -> Change:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
    await connection.execute("SET LOCAL client_min_messages = warning")
    await connection.execute(_STATE)
    before, checksum = await connection.fetchrow("SELECT version, functions FROM stafette.schema_state") or (0, "")
    refuse_newer(before)
    for migration in migrations():
        if before < migration.version <= to:
            await connection.execute(migration.sql)
    functions_due = to == newest_version() and (before != to or checksum != functions_checksum())
    if functions_due:
        await connection.execute(functions_sql())
        await connection.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA stafette FROM PUBLIC")
    await connection.execute(
        "UPDATE stafette.schema_state SET version = $1, functions = $2, changed_at = now()"
        " WHERE (version, functions) <> ($1, $2)",
        max(before, to),
        functions_checksum() if functions_due else checksum,
    )
    return Change(before=before, after=max(before, to), functions=functions_due)


async def reset(url: str) -> Change:
    """Drop everything of ours, messages included, and start afresh."""
    connection = await connect(url)
    try:
        with translated_errors(url):
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
                await connection.execute("SET LOCAL client_min_messages = warning")
                await connection.execute("DROP SCHEMA IF EXISTS stafette CASCADE")
                return await _migrate(connection, newest_version())
    finally:
        await connection.close()


def refuse_newer(version: int) -> None:
    """Raise when the database is ahead of this program."""
    if version > newest_version():
        raise InternalError(
            f"the database has schema version {version}, newer than the {newest_version()} this Stafette knows;"
            " upgrade Stafette"
        )


async def require_current(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Raise unless the database has exactly the schema and functions this program needs."""
    if await connection.fetchval("SELECT to_regclass('stafette.schema_state')") is None:
        raise InternalError("the database has no schema for Stafette; run `stafette db migrate`")
    version, checksum = await connection.fetchrow("SELECT version, functions FROM stafette.schema_state") or (0, "")
    refuse_newer(version)
    if version < newest_version() or checksum != functions_checksum():
        raise InternalError(
            f"the database has schema version {version}; this Stafette needs {newest_version()} with its own functions;"
            " run `stafette db migrate`"
        )


async def require_durability(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Raise when the server would answer before a commit is on disk."""
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        if await connection.fetchval("SELECT current_setting($1)", setting) == "off":
            raise InternalError(
                f"the database runs with {setting} = off, so an answered send could be lost;"
                " turn it on, or accept that with --unsafe-durability"
            )
