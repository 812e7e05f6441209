"""A child process of the job queue: it gets orders as lines of JSON and answers each with events, the last being `end`.

The child ends when its input does, so it does not outlive the web process, even one that was killed.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stafette.errors import StafetteError
from stafette.lab.child_environment import environment

STOP_SECONDS = 30.0
"""How long a child may take to end its work when we end."""
LINE_BYTES = 16 * 2**20

EventHandler = Callable[[Mapping[str, Any]], None]


class JobChild:
    """A running child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._handle: EventHandler | None = None
        self._last_error: str | None = None
        self._errors = asyncio.create_task(self._read_errors())

    @classmethod
    async def start(cls, module: str, folder: Path) -> JobChild:
        """Start a module as a process in a folder, without settings of the web process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=folder, env=environment(),
            start_new_session=True, limit=LINE_BYTES,
        )  # fmt: skip
        return cls(process)

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.returncode is not None

    async def work(self, order: Mapping[str, Any], handle: EventHandler) -> dict[str, Any]:
        """Give an order, and handle its events, among them `said` for each line on its standard error.

        Returns the last event. Raises StafetteError if the child ends before.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._handle = handle
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            while line := await self._process.stdout.readline():
                event: dict[str, Any] = json.loads(line)
                if event["kind"] == "end":
                    return event
                handle(event)
            code = await self._process.wait()
            await self._errors
        finally:
            self._handle = None
        reason = self._last_error or f"exit code {code}"
        raise StafetteError(f"the process of the job ended: {reason.removeprefix('stafette: ')}")

    def interrupt(self) -> None:
        """Interrupt its work, as Ctrl-C does."""
        if not self.ended:
            self._process.send_signal(signal.SIGINT)

    async def close(self) -> None:
        """Close its input, at which it ends, and wait."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                while await self._process.stdout.readline():
                    pass
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        finally:
            self._errors.cancel()

    async def kill(self) -> None:
        """End it at once, whatever it does."""
        if not self.ended:
            self._process.kill()
        await self.close()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            if text := line.decode(errors="replace").strip():
                self._last_error = text
                if self._handle is not None:
                    self._handle({"kind": "said", "line": text})
