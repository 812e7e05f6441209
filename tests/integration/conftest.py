"""The oldest PostgreSQL that must do, databases without our schema, and stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stafette.database.store import Store
from tests.support.databases import VERSIONS, Databases, databases_of, serve

POSTGRESQL_15 = Path("/usr/lib/postgresql/15/bin")  # where Debian 12 has it


@pytest.fixture(scope="session")
def databases_15(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The oldest PostgreSQL that must do."""
    if not POSTGRESQL_15.exists():
        pytest.skip(f"no PostgreSQL 15 in {POSTGRESQL_15}")
    yield from serve(tmp_path_factory.mktemp("postgres_15"), POSTGRESQL_15)


@pytest.fixture
async def new_database(databases: Databases) -> AsyncIterator[str]:
    """The URL of a database without our schema."""
    url = await databases.make()
    yield url
    await databases.drop(url)


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
async def store(any_database: str) -> AsyncIterator[Store]:
    async with await Store.open(any_database) as store:
        yield store
