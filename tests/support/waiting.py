"""How tests wait: for something to hold, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stafette.client.aio import Client

PATIENCE_SECONDS = 60.0
"""Only a failure takes so long: it fails one test instead of holding up all others."""
A_DAY = 86_400.0
"""Longer than any test."""


async def until(done: Callable[[], bool], anybody: Client) -> None:
    """Let the broker work until something is so; each turn is a round trip to it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not done():
            await anybody.ping()
