"""How tests wait: for something to hold, and not for ever."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

TIMEOUT_SECONDS = 60.0
"""Only a failure takes so long: it fails one test instead of holding up all others."""
A_DAY = 86_400.0
"""Longer than any test."""
GLANCE_SECONDS = 0.05
"""Between two looks at what other processes do."""
Value = TypeVar("Value")


async def let_others_run() -> None:
    """One turn of the event loop."""
    await asyncio.sleep(0)


async def glance() -> None:
    """A moment, for what other processes do."""
    await asyncio.sleep(GLANCE_SECONDS)


async def until(condition: Callable[[], Any], turn: Callable[[], Awaitable[Any]] = let_others_run) -> None:
    """Wait until a condition holds, or is awaited to hold; a turn passes between two looks.

    With a client's `ping` for a turn, its broker works meanwhile.
    """
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await _holds(condition):
                await turn()
    except TimeoutError:
        raise AssertionError(f"it did not hold within {TIMEOUT_SECONDS:g} seconds") from None


async def _holds(condition: Callable[[], Any]) -> Any:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer


def blocking_until(condition: Callable[[], Value | None], seconds: float = TIMEOUT_SECONDS) -> Value:
    """The same without an event loop; returns what holds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it did not hold within {seconds:g} seconds"
        time.sleep(GLANCE_SECONDS)
    return value
