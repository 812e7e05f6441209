"""mepas: 64 idle clients cost a whole core, dead or not. Here they ask the database nothing, and dead ones even less.

`test_faults_of_the_originals.py` lists all faults.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

import stafette.aio
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.database.pool import Pool
from tests.support.brokers import StartBroker
from tests.support.waiting import A_DAY, until

IDLE = 64
UPKEEP = {
    "renew_broker", "expire_leases", "promote_delayed", "drop_expired", "delete_discarded", "forget_keys",
    "forget_received", "forget_sessions", "publish_metrics", "forget_history", "add_history", "count_all_messages",
}  # fmt: skip


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of every function that brokers have called in the database, in order."""
    called: list[str] = []
    fetch = Pool.fetch

    async def noting(self: Pool, sql: str, *arguments: Any, seconds: float | None = None) -> list[asyncpg.Record]:
        rows = await fetch(self, sql, *arguments, seconds=seconds)
        called.append(re.findall(r"stafette\.(\w+)", sql)[0])
        return rows

    monkeypatch.setattr(Pool, "fetch", noting)
    return called


@pytest.fixture
async def idle(brokers: StartBroker, statements: list[str]) -> AsyncIterator[tuple[Runtime, list[Client]]]:
    """One broker and its clients, who all wait for a message that does not come."""
    runtime, url = await brokers()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(await stafette.aio.connect(url, name=f"idler {number}"))
            for number in range(IDLE)
        ]
        await clients[0].create_queue("silence")
        reads = [asyncio.create_task(client.receive("silence", wait=A_DAY)) for client in clients]
        await until(
            lambda: "announce_interests" in statements, clients[0].ping
        )  # other brokers could know of reads here
        await until(
            lambda: len(runtime.core.waiting) == IDLE and not runtime.core.dispatcher.outstanding, clients[0].ping
        )
        yield runtime, clients
    await asyncio.gather(*reads, return_exceptions=True)


async def let_time_pass(clients: list[Client]) -> None:
    """Thousands of turns of the broker's loop."""
    for _ in range(50):
        await asyncio.gather(*(client.ping() for client in clients))


def not_upkeep(statements: list[str]) -> list[str]:
    """What was asked of the database beyond the few statements that a broker without clients makes as well."""
    return [name for name in statements if name not in UPKEEP]


async def test_idle_clients_cost_the_database_nothing(
    idle: tuple[Runtime, list[Client]], statements: list[str]
) -> None:
    runtime, clients = idle
    batches = sum(runtime.core.metrics.batch_requests.counts)
    assert statements.count("announce_interests") == 1, "other brokers are told once, not for each"
    statements.clear()
    await let_time_pass(clients)
    assert sum(runtime.core.metrics.batch_requests.counts) == batches
    assert not_upkeep(statements) in ([], ["interests_elsewhere"]), "at most a look that their parking has caused"
    assert len(runtime.core.waiting) == IDLE


async def test_the_slow_poll_asks_once_for_all_idle_clients(idle: tuple[Runtime, list[Client]]) -> None:
    runtime, clients = idle
    batches = sum(runtime.core.metrics.batch_requests.counts)
    runtime.wake_reads()
    await until(lambda: not runtime.core.dispatcher.outstanding, clients[0].ping)
    assert len(runtime.core.waiting) == IDLE
    await let_time_pass(clients)
    assert sum(runtime.core.metrics.batch_requests.counts) == batches + 1


async def test_clients_that_died_cost_nothing(idle: tuple[Runtime, list[Client]], statements: list[str]) -> None:
    runtime, [witness, *others] = idle
    statements.clear()
    for client in others:
        client._failover._closed = True  # it does not come back, as if its process had ended
    for session in list(runtime.core.sessions.values()):
        if session.name != witness.name:
            session.connection.abort()
    await until(lambda: len(runtime.core.connected) == 1 and "release_sessions" in statements, witness.ping)
    assert (len(runtime.core.waiting), len(runtime.core.sessions)) == (1, 1)
    assert statements.count("release_sessions") < len(others), "those who go together are signed off together"
    statements.clear()
    await let_time_pass([witness])
    assert set(not_upkeep(statements)) <= {"interests_elsewhere", "release_sessions"}
    assert len(not_upkeep(statements)) < 5
