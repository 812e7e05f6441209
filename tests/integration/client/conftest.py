"""A client whose network can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stafette.client.aio import Client
from tests.support.brokers import Connect
from tests.support.tcp_proxy import Proxy


@pytest.fixture
async def proxy(broker: str) -> AsyncIterator[Proxy]:
    async with Proxy(broker) as proxy:
        yield proxy


@pytest.fixture
async def alice(proxy: Proxy, connect: Connect) -> Client:
    """A client behind the proxy, with a queue."""
    alice = await connect("alice", proxy.url)
    await alice.create_queue("jobs")
    return alice
