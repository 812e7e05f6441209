"""A real PostgreSQL for every test: one server for the session, with our schema and without content for each test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import stafette.aio
from stafette.broker.limits import Limits
from stafette.broker.runtime import Runtime
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.store import Store

POSTGRESQL_15 = Path("/usr/lib/postgresql/15/bin")  # where Debian 12 has it
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


def _serve(data: Path, binaries: Path | None) -> Iterator[Databases]:
    server = EmbeddedPostgres(data, binaries=binaries)
    server.start()
    try:
        yield Databases(server)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The PostgreSQL that Stafette brings along."""
    yield from _serve(tmp_path_factory.mktemp("postgres"), None)


@pytest.fixture(scope="session")
def databases_15(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The oldest PostgreSQL that must do."""
    if not POSTGRESQL_15.exists():
        pytest.skip(f"no PostgreSQL 15 in {POSTGRESQL_15}")
    yield from _serve(tmp_path_factory.mktemp("postgres_15"), POSTGRESQL_15)


@pytest.fixture
async def database(databases: Databases) -> str:
    """The URL of an empty, migrated database."""
    await databases.clear()
    return databases.migrated


@pytest.fixture
async def new_database(databases: Databases) -> AsyncIterator[str]:
    """The URL of a database without our schema."""
    url = await databases.make()
    yield url
    await databases.drop(url)


VERSIONS = ("newest", "15")


def databases_of(request: pytest.FixtureRequest) -> Databases:
    """The server that a fixture with these parameters is for."""
    chosen: Databases = request.getfixturevalue("databases" if request.param == "newest" else "databases_15")
    return chosen


@pytest.fixture(params=VERSIONS)
def any_databases(request: pytest.FixtureRequest) -> Databases:
    """The newest and the oldest PostgreSQL in turn."""
    return databases_of(request)


@pytest.fixture
async def any_database(any_databases: Databases) -> str:
    """The URL of an empty, migrated database, on the newest and on the oldest PostgreSQL in turn."""
    await any_databases.clear()
    return any_databases.migrated


@pytest.fixture
async def brokers(database: str) -> AsyncIterator[Callable[..., Awaitable[tuple[Runtime, str]]]]:
    """Starts brokers in this process, each on a free port, over one empty database; returns runtime and URL."""
    async with AsyncExitStack() as stack:

        async def start(**limits: int) -> tuple[Runtime, str]:
            settings = BrokerSettings(database=database, port=0, limits=Limits(**limits))
            runtime, port = await stack.enter_async_context(running(settings))
            return runtime, f"stafette://127.0.0.1:{port}"

        yield start


@pytest.fixture
async def broker(brokers: Callable[..., Awaitable[tuple[Runtime, str]]]) -> str:
    """The URL of one broker."""
    _, url = await brokers()
    return url


@pytest.fixture
async def connect(broker: str) -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    """Connects clients, by name, to the one broker or to a URL, and closes them at the end."""
    async with AsyncExitStack() as stack:

        async def start(name: str, url: str = broker, **options: Any) -> Client:
            return await stack.enter_async_context(await stafette.aio.connect(url, name=name, **options))

        yield start


@pytest.fixture
async def store(any_database: str) -> AsyncIterator[Store]:
    async with await Store.open(any_database) as store:
        yield store
