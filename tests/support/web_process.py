"""The web console as a process of its own, and a client of its API."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx


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
async def web_process(database: str, data: Path, broker: str, *options: str) -> AsyncIterator[str]:
    """Run `stafette web` until the end; yields its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stafette", "web", "--database", database, "--data", str(data), "--port", "0",
        "--broker", broker, *options, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
