"""The console, one for the tests of a file or one for a test alone, and a client of its API."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stafette.database.console import Console
from stafette.database.store import Store
from stafette.web.operators import new_secret
from tests.support.brokers import StartBroker
from tests.support.raw_http import Connect, RawHttp
from tests.support.stafette_up import whole_system
from tests.support.web_process import Web, web_process


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """The console of a whole system, which the tests of a file share."""
    with whole_system(tmp_path_factory.mktemp("site") / "data") as system:
        yield Web(system.web, system.secret, system.viewers_secret(), system.data)


@pytest.fixture
async def web(database: str, brokers: StartBroker, tmp_path: Path) -> AsyncIterator[Web]:
    """The console of an empty database with one broker, for a test that changes how it behaves."""
    _, broker = await brokers()
    async with await Store.open(database) as store:
        admin, viewer = await new_secret(Console(store.pool), "admin"), await new_secret(Console(store.pool), "viewer")
    async with web_process(database, tmp_path / "data", broker) as url:
        yield Web(url, admin, viewer, tmp_path / "data")


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connections of bare sockets, which are closed at the end."""
    async with AsyncExitStack() as until_end:

        async def open_connection(url: str, tls: ssl.SSLContext | None = None) -> RawHttp:
            connection = await RawHttp.connect(url, tls)
            until_end.push_async_callback(connection.close)
            return connection

        yield open_connection
