"""A stage for behaviours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.support.behaviour_stage import Stage
from tests.support.brokers import StartBroker


@pytest.fixture
async def stage(brokers: StartBroker) -> AsyncIterator[Stage]:
    runtime, url = await brokers()
    async with AsyncExitStack() as stack:
        stage = Stage(runtime, url, stack)
        await stage.open()
        yield stage
