"""Migrations: step by step or all at once, by one process or many, the result is the same schema."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stafette import errors
from stafette.database import schema
from stafette.database.store import Store
from tests.integration.conftest import Databases

# All that makes a schema: relations with their columns, constraints, indexes, sequences, types and functions.
CATALOGUE = """
SELECT 'column' AS kind, c.relname || '.' || a.attname AS name,
       concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnum, a.attnotnull, a.attidentity,
                 pg_get_expr(d.adbin, d.adrelid), c.relkind, c.reloptions) AS definition
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'stafette'::regnamespace
UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'stafette'::regnamespace
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'stafette'
UNION ALL SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = 'stafette'
UNION ALL SELECT 'function', oid::regprocedure::text, pg_get_functiondef(oid) || coalesce(proacl::text, '')
FROM pg_proc WHERE pronamespace = 'stafette'::regnamespace
ORDER BY 1, 2, 3
"""


async def catalogue(url: str) -> list[tuple[str, ...]]:
    connection = await asyncpg.connect(url)
    rows = [tuple(row) for row in await connection.fetch(CATALOGUE)]
    await connection.close()
    return rows


async def set_state(url: str, assignment: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"UPDATE stafette.schema_state SET {assignment}")
    await connection.close()


async def test_a_fresh_schema_equals_all_migrations_applied_one_by_one(databases: Databases, new_database: str) -> None:
    for migration in schema.migrations():
        change = await schema.migrate(new_database, to=migration.version)
        assert (change.before, change.after) == (migration.version - 1, migration.version)
    stepwise = await catalogue(new_database)
    assert stepwise == await catalogue(databases.migrated)
    assert {kind for kind, *_ in stepwise} == {"column", "constraint", "index", "view", "function"}


async def test_migrating_again_changes_nothing(new_database: str) -> None:
    first, again = await schema.migrate(new_database), await schema.migrate(new_database)
    assert first == schema.Change(before=0, after=schema.newest_version(), functions=True)
    assert again == schema.Change(before=schema.newest_version(), after=schema.newest_version(), functions=False)


async def test_changed_functions_are_replaced_even_without_a_migration(new_database: str) -> None:
    await schema.migrate(new_database)
    fresh = await catalogue(new_database)
    connection = await asyncpg.connect(new_database)
    await connection.execute("CREATE OR REPLACE FUNCTION stafette.leave_broker(broker integer) RETURNS void"
                             " LANGUAGE sql AS $$ SELECT $$")  # fmt: skip
    await connection.close()
    await set_state(new_database, "functions = 'of another program'")
    with pytest.raises(errors.InternalError, match="stafette db migrate"):
        await Store.open(new_database)
    assert (await schema.migrate(new_database)).functions
    assert await catalogue(new_database) == fresh


async def test_many_may_migrate_at_once(new_database: str) -> None:
    changes = await asyncio.gather(*(schema.migrate(new_database) for _ in range(8)))
    assert sorted(change.before for change in changes) == [0] + [schema.newest_version()] * 7


async def test_a_newer_database_is_left_alone(new_database: str) -> None:
    await schema.migrate(new_database)
    await set_state(new_database, "version = 4711")
    for attempt in (schema.migrate(new_database), Store.open(new_database)):
        with pytest.raises(errors.InternalError, match=r"schema version 4711, newer than .* upgrade Stafette"):
            await attempt


async def test_a_failed_migration_leaves_no_trace(new_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [*schema.migrations(), schema.Migration(99, "broken", "CREATE TABLE stafette.half (); SELECT 1/0")]
    monkeypatch.setattr(schema, "migrations", lambda: broken)
    with pytest.raises(errors.StafetteError, match="division by zero"):
        await schema.migrate(new_database)
    assert await catalogue_is_empty(new_database)


async def catalogue_is_empty(url: str) -> bool:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("SELECT to_regnamespace('stafette')") is None
    finally:
        await connection.close()


async def test_reset_starts_afresh(new_database: str) -> None:
    await schema.migrate(new_database)
    async with await Store.open(new_database) as store:
        await store.register("alice")
    await schema.reset(new_database)
    async with await Store.open(new_database) as store:
        assert await store.clients() == []
