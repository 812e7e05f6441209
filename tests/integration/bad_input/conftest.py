"""Brokers that must survive whatever comes; nothing is logged, others are served, and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import stafette.aio
from tests.support.brokers import StartBroker
from tests.support.hostile_peers import Broker


@pytest.fixture(autouse=True)
async def quiet(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Nothing that comes over the wire is a reason to log an error, here or in asyncio."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    yield
    gc.collect()  # tasks whose exceptions nobody has seen say so when they go
    asyncio.get_running_loop().set_exception_handler(None)
    logged = [record.getMessage() for when in ("setup", "call") for record in caplog.get_records(when)
              if record.levelno >= logging.ERROR]  # fmt: skip
    assert (logged, unhandled) == ([], [])


@pytest.fixture
async def broker_of(
    brokers: StartBroker,
) -> AsyncIterator[Callable[..., Awaitable[Broker]]]:
    """Starts a broker; at the end of the test, see that others are served and that nothing is left."""
    started: list[Broker] = []

    async def start(**limits: int) -> Broker:
        runtime, url = await brokers(**limits)
        healthy = await stafette.aio.connect(url, name="healthy")
        await healthy.create_queue("healthy", exist_ok=True)
        started.append(Broker(runtime, url, healthy))
        return started[-1]

    yield start
    for broker in started:
        await broker.serves()
        await broker.everybody_gone()


@pytest.fixture
async def broker(broker_of: Callable[..., Awaitable[Broker]]) -> Broker:
    return await broker_of()


@pytest.fixture
def time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has to do something is late with it."""
    for timeout in ("HELLO", "FRAME", "READ", "HANG_UP"):
        monkeypatch.setattr(f"stafette.broker.core.idle_timeouts.{timeout}_SECONDS", -1.0)
