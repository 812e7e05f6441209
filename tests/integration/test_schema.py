"""Migrations: step by step or all at once, by one process or many, the result is the same schema."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stafette import errors
from stafette.database import schema
from stafette.database.store import Store
from tests.support.catalogue import catalogue
from tests.support.databases import Databases


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def set_state(url: str, assignment: str) -> None:
    await execute(url, f"UPDATE stafette.schema_state SET {assignment}")


async def test_a_fresh_schema_equals_all_migrations_applied_one_by_one(databases: Databases, new_database: str) -> None:
    before = 0
    for migration in schema.migrations():
        change = await schema.migrate(new_database, to=migration.version)
        assert (change.before, change.after) == (before, migration.version)
        before = change.after
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


CHANGED_SIGNATURES = """
DROP FUNCTION stafette.leave_broker(integer);
CREATE FUNCTION stafette.leave_broker(which integer) RETURNS integer LANGUAGE sql AS 'SELECT which';
CREATE FUNCTION stafette.leave_broker(broker text) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION stafette.gone(queue stafette.queues) RETURNS stafette.queues LANGUAGE sql AS 'SELECT queue';
CREATE PROCEDURE stafette.gone() LANGUAGE sql AS '';
"""


async def test_functions_that_no_file_has_are_dropped(any_databases: Databases) -> None:
    url = await any_databases.make()
    await schema.migrate(url)
    await execute(url, CHANGED_SIGNATURES)
    await set_state(url, "functions = 'of another program'")
    await schema.migrate(url)
    assert await catalogue(url) == await catalogue(any_databases.migrated)
    await any_databases.drop(url)


async def test_a_migration_may_change_a_type_that_functions_use(
    new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schema.migrate(new_database)
    fresh = await catalogue(new_database)
    step = schema.Migration(
        schema.newest_version() + 1,
        "another answer",
        "CREATE TEMPORARY TABLE sketch AS SELECT pg_get_viewdef('stafette.queue_list') AS sql;"
        "DROP TYPE stafette.counted_queue; DROP VIEW stafette.queue_list;"
        "DO $$ BEGIN EXECUTE 'CREATE VIEW stafette.queue_list AS ' || (SELECT sql FROM sketch); END $$;"
        "CREATE TYPE stafette.counted_queue AS (queue stafette.queue_list, messages bigint)",
    )
    steps = [*schema.migrations(), step]
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    await schema.migrate(new_database)
    assert await catalogue(new_database) == fresh


OTHER_SEND = "CREATE FUNCTION stafette.send(sender text, queue text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'"


async def test_grants_pass_to_the_function_of_the_same_name(any_databases: Databases) -> None:
    url = await any_databases.make()
    await schema.migrate(url)
    await execute(
        url,
        "CREATE ROLE granted",
        "DROP FUNCTION stafette.send",
        OTHER_SEND,
        "REVOKE ALL ON FUNCTION stafette.send FROM PUBLIC",
        "GRANT EXECUTE ON FUNCTION stafette.send TO granted WITH GRANT OPTION",
        "GRANT EXECUTE ON FUNCTION stafette.receive TO PUBLIC",
        "DROP FUNCTION stafette.peek_next",
        "CREATE FUNCTION stafette.peek_next() RETURNS void LANGUAGE sql AS ''",
    )
    await set_state(url, "functions = 'of another program'")
    await schema.migrate(url)
    connection = await asyncpg.connect(url)
    grants = await connection.fetch(
        "SELECT p.proname, a.grantee::regrole::text, a.is_grantable FROM pg_proc AS p, aclexplode(p.proacl) AS a"
        " WHERE p.pronamespace = 'stafette'::regnamespace AND a.grantee <> p.proowner ORDER BY p.proname"
    )
    await connection.execute("DROP OWNED BY granted; DROP ROLE granted")
    await connection.close()
    assert [tuple(row) for row in grants] == [("receive", "-", False), ("send", "granted", True)]
    await any_databases.drop(url)


async def test_what_is_built_on_a_function_that_goes_is_not_dropped_with_it(new_database: str) -> None:
    await schema.migrate(new_database)
    await execute(new_database, OTHER_SEND, "CREATE VIEW sends AS SELECT stafette.send('a', 'b')")
    await set_state(new_database, "functions = 'of another program'")
    with pytest.raises(errors.InternalError, match=r"view sends depends on function .* drop that, migrate again"):
        await schema.migrate(new_database)


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
        await store.clients.register("alice")
    await schema.reset(new_database)
    async with await Store.open(new_database) as store:
        assert await store.clients.all() == []
