"""The web console as a process of its own, and a client of its API."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
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
async def web_process(
    database: str, data: Path, broker: str, *options: str, open_files: int | None = None, log: Path | None = None
) -> AsyncIterator[str]:
    """Run `stafette web` until the end, with a limit on open files and its log in a file; yields its address."""
    with contextlib.ExitStack() as until_end:
        errors = None if log is None else until_end.enter_context(log.open("wb"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "stafette", "web", "--database", database, "--data", str(data), "--port", "0",
            "--broker", broker, *options, stdout=asyncio.subprocess.PIPE, stderr=errors,
            preexec_fn=None if open_files is None else partial(limit_open_files, open_files),
        )  # fmt: skip
        assert process.stdout is not None
        try:
            yield (await process.stdout.readline()).decode().strip()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def limit_open_files(number: int) -> None:
    """Let this process have so many descriptors and no more."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))
