"""A real PostgreSQL for tests: one server, with our schema and without content for each test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres

VERSIONS = ("newest", "15")
_numbers = itertools.count(1)


class Databases:
    """The databases of one server: a migrated one that every test finds empty, and new ones without our schema."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server = server
        self.migrated = server.url
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        await schema.migrate(self.migrated)
        # A look each second and a long log are for queues under load; here they would cost more than they are good for.
        await self._execute("ALTER SYSTEM SET autovacuum_naptime = '1min'")
        await self._execute("ALTER SYSTEM SET max_wal_size = '256MB'")
        await self._execute("SELECT pg_reload_conf()")

    async def clear(self) -> None:
        """Empty all tables and start all counters over; a tenth of the time of making and dropping a database.

        What the planner has learned of another test's rows goes, too: a new database knows nothing.
        """
        connection = await asyncpg.connect(self.migrated)
        await connection.execute(  # what a killed broker had begun, which goes on and may lock tables in another order
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        used = await connection.fetchval(
            "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class WHERE relnamespace = 'stafette'::regnamespace"
            " AND relkind = 'r' AND relname <> 'schema_state' AND pg_relation_size(oid) > 0"
        )
        if used:
            await connection.execute(f"TRUNCATE {used} CASCADE")
        await connection.execute(
            "SELECT setval(oid, 1, false) FROM pg_class WHERE relnamespace = 'stafette'::regnamespace AND relkind = 'S'"
        )
        await connection.execute(
            "DELETE FROM pg_statistic USING pg_class AS c"
            " WHERE starelid = c.oid AND c.relnamespace = 'stafette'::regnamespace"
        )
        await connection.close()

    async def make(self) -> str:
        """Returns the URL of a new database without our schema."""
        name = f"test_{next(_numbers)}"
        await self._execute(f"CREATE DATABASE {name}")
        return self.migrated.replace("@/stafette?", f"@/{name}?")

    async def drop(self, url: str) -> None:
        name = url.split("@/")[1].split("?")[0]
        await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self.migrated)
        await connection.execute(sql)
        await connection.close()


def serve(data: Path, binaries: Path | None) -> Iterator[Databases]:
    """A server with its databases, until the test run ends."""
    server = EmbeddedPostgres(data, binaries=binaries)
    server.start()
    try:
        yield Databases(server)
    finally:
        server.stop()


def databases_of(request: pytest.FixtureRequest) -> Databases:
    """The server that a fixture with these parameters is for."""
    chosen: Databases = request.getfixturevalue("databases" if request.param == "newest" else "databases_15")
    return chosen
