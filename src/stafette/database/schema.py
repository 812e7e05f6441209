"""Brings a database to the schema this program needs.

Tables change by numbered migrations, applied once and in order. Functions are files of their own, always the newest,
put in place again whenever one of them changed; the schema has no function that no file has. Both happen in one
transaction under a lock, so any number of processes may try at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from stafette.database.connect import Connection, connected
from stafette.errors import InternalError

SQL = Path(__file__).parent / "sql"

RACES = 10
"""How often to try again when somebody else creates or drops the schema at the same moment."""

_STATE = """
CREATE SCHEMA IF NOT EXISTS stafette;
CREATE TABLE IF NOT EXISTS stafette.schema_state (
    one_row    boolean     PRIMARY KEY DEFAULT true CHECK (one_row),
    version    integer     NOT NULL,
    functions  text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
"""

# Those that depend on a type of ours, as the row of a view, would keep a migration from changing it.
_TYPED = """
SELECT DISTINCT d.objid::regprocedure::text
FROM pg_depend AS d JOIN pg_type AS t ON d.refclassid = 'pg_type'::regclass AND d.refobjid = t.oid
WHERE d.classid = 'pg_proc'::regclass AND t.typnamespace = 'stafette'::regnamespace
  AND d.objid IN (SELECT p.oid FROM pg_proc AS p WHERE p.pronamespace = 'stafette'::regnamespace)
"""

# Replacing a function writes its row anew: a row at the same address is that of a function which no file has. Functions
# of an extension are not ours to drop.
_ROWS = """
SELECT p.oid::regprocedure::text, p.ctid::text FROM pg_proc AS p
WHERE p.pronamespace = 'stafette'::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend AS d
                  WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
"""

_OVERLOADS = """
SELECT p.oid::regprocedure::text FROM pg_proc AS p
WHERE p.pronamespace = 'stafette'::regnamespace AND p.proname = $1
"""

# A function without an access list has never been granted to anybody. PUBLIC is in a list only if somebody granted it.
_GRANTS = """
SELECT DISTINCT p.proname::text, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
       a.is_grantable
FROM pg_proc AS p CROSS JOIN LATERAL aclexplode(p.proacl) AS a
WHERE p.pronamespace = 'stafette'::regnamespace AND a.grantee <> p.proowner
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


def function_files() -> list[Path]:
    """Every function, a file each, named as the function is."""
    return sorted((SQL / "functions").rglob("*.sql"), key=lambda path: path.stem)


def functions_checksum() -> str:
    """What tells one set of functions from another."""
    return hashlib.sha256("\n".join(path.read_text() for path in function_files()).encode()).hexdigest()


@dataclass(frozen=True)
class Change:
    """What `migrate` did: versions before and after, and whether functions were replaced."""

    before: int
    after: int
    functions: bool


async def migrate(url: str, *, to: int | None = None) -> Change:
    """Apply what is missing, up to the newest version or the one asked for."""
    async with connected(url) as connection, connection.transaction():
        return await _migrate(connection, to or newest_version())


async def _migrate(connection: Connection, to: int) -> Change:
    await connection.execute("SET LOCAL client_min_messages = warning")
    await _lock(connection)
    await connection.execute(
        "INSERT INTO stafette.schema_state (version, functions) VALUES (0, '') ON CONFLICT DO NOTHING"
    )
    before, checksum = await connection.fetchrow("SELECT version, functions FROM stafette.schema_state") or (0, "")
    refuse_newer(before)
    grants = await connection.fetch(_GRANTS)
    due = [migration for migration in migrations() if before < migration.version <= to]
    if due:
        await _drop(connection, [function for (function,) in await connection.fetch(_TYPED)])
    for migration in due:
        await connection.execute(migration.sql)
    functions_due = to == newest_version() and (before != to or checksum != functions_checksum())
    if functions_due:
        await _load_functions(connection)
        await _grant(connection, grants)
    await connection.execute(
        "UPDATE stafette.schema_state SET version = $1, functions = $2, changed_at = now()"
        " WHERE (version, functions) <> ($1, $2)",
        max(before, to),
        functions_checksum() if functions_due else checksum,
    )
    return Change(before=before, after=max(before, to), functions=functions_due)


async def _lock(connection: Connection) -> None:
    """Wait until nobody else changes the schema, which is then there. An advisory lock would be anybody's to take."""
    for attempt in range(1, RACES + 1):
        try:
            async with connection.transaction():
                if await connection.fetchval("SELECT to_regclass('stafette.schema_state')") is None:
                    await connection.execute(_STATE)
                await connection.execute("LOCK TABLE stafette.schema_state IN EXCLUSIVE MODE")
            return
        except (asyncpg.UniqueViolationError, asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            if attempt == RACES:
                raise


async def _load_functions(connection: Connection) -> None:
    """Put every function in place and drop those that no file has."""
    await connection.execute("SET LOCAL check_function_bodies = off")  # so the order of files does not matter
    rows = {tuple(row) for row in await connection.fetch(_ROWS)}
    for path in function_files():
        sql = path.read_text()
        try:
            async with connection.transaction():
                await connection.execute(sql)
        except asyncpg.InvalidFunctionDefinitionError:  # another result, or other names of arguments: not replaceable
            await _drop(connection, [function for (function,) in await connection.fetch(_OVERLOADS, path.stem)])
            await connection.execute(sql)
    await _drop(connection, [row[0] for row in await connection.fetch(_ROWS) if tuple(row) in rows])


async def _drop(connection: Connection, functions: Sequence[str]) -> None:
    """Drop functions on which nothing depends; what others built on them is theirs to drop."""
    if not functions:
        return
    try:
        await connection.execute(f"DROP ROUTINE {', '.join(functions)}")
    except asyncpg.DependentObjectsStillExistError as error:
        raise InternalError(
            f"a function of the schema stafette has to go, but something is built on it: {error.detail};"
            " drop that, migrate again, and create it again"
        ) from error


async def _grant(connection: Connection, grants: Sequence[asyncpg.Record]) -> None:
    """Leave each function to its owner and to those who had a right to the function of that name."""
    await connection.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA stafette FROM PUBLIC")
    names = {path.stem for path in function_files()}
    for name, grantee, grantable in grants:
        if name in names:
            option = " WITH GRANT OPTION" if grantable else ""
            await connection.execute(f"GRANT EXECUTE ON FUNCTION stafette.{name} TO {grantee}{option}")


async def reset(url: str) -> Change:
    """Drop everything of ours, messages included, and create the schema again."""
    async with connected(url) as connection, connection.transaction():
        await connection.execute("SET LOCAL client_min_messages = warning")
        await _lock(connection)
        await connection.execute("DROP SCHEMA IF EXISTS stafette CASCADE")
        return await _migrate(connection, newest_version())


def refuse_newer(version: int) -> None:
    """Raise when the database is ahead of this program."""
    if version > newest_version():
        raise InternalError(
            f"the database has schema version {version}, newer than the {newest_version()} this Stafette knows;"
            " upgrade Stafette"
        )


async def require_current(connection: Connection) -> None:
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
