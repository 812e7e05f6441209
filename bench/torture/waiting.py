"""How the harness waits for other processes: never for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from stafette.errors import RequestTimeout

LIMIT_SECONDS = 60.0
"""How long anything may take to start, to end, or to go on."""
POLL_SECONDS = 0.05


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = LIMIT_SECONDS) -> None:
    """Wait until the condition holds."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110  other processes set no event
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise RequestTimeout(f"waited {seconds:g} seconds for {what}; see what it does") from None


async def gone(pid: int) -> None:
    """Wait until a process has ended, or is a zombie."""

    async def has_ended() -> bool:
        return not lives(pid)

    await until(has_ended, f"process {pid} to end")


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
