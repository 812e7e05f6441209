"""The console, one for the tests of a file or one for a test alone, and a client of its API."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from stafette.broker.runtime import Runtime
from stafette.database.console import Console
from stafette.database.store import Store
from stafette.web.operators import new_secret
from tests.whole_system import whole_system


@dataclass(frozen=True)
class Web:
    """A running web process."""

    url: str
    admin: str
    viewer: str
    data: Path

    def api(self, secret: str | None = None) -> httpx.AsyncClient:
        """A client of the API, an administrator's unless another secret is given ("" for none)."""
        chosen = self.admin if secret is None else secret
        headers = {"Authorization": f"Bearer {chosen}"} if chosen else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60)


@contextlib.asynccontextmanager
async def web_process(database: str, data: Path, broker: str) -> AsyncIterator[str]:
    """Run `stafette web` until the end; yields its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stafette", "web", "--database", database, "--data", str(data), "--port", "0",
        "--broker", broker, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """The console of a whole system, which the tests of a file share."""
    with whole_system(tmp_path_factory.mktemp("site") / "data") as system:
        yield Web(system.web, system.secret, system.viewers_secret(), system.data)


@pytest.fixture
async def web(
    database: str, brokers: Callable[..., Awaitable[tuple[Runtime, str]]], tmp_path: Path
) -> AsyncIterator[Web]:
    """The console of an empty database with one broker, for a test that changes how it behaves."""
    _, broker = await brokers()
    async with await Store.open(database) as store:
        admin, viewer = await new_secret(Console(store.pool), "admin"), await new_secret(Console(store.pool), "viewer")
    async with web_process(database, tmp_path / "data", broker) as url:
        yield Web(url, admin, viewer, tmp_path / "data")
