"""The console's view of a store."""

from __future__ import annotations

import pytest

from stafette.database.clients import Identity
from stafette.database.console import Console
from stafette.database.store import Store
from stafette.model import QueueOptions


@pytest.fixture
def console(store: Store) -> Console:
    return Console(store.pool)


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.clients.register("alice")
    await store.clients.register("bob", secret="a hash")
    await store.queues.create(identity.id, "jobs", QueueOptions(max_deliveries=1))
    await store.queues.create(identity.id, "Audit", QueueOptions(exclude_own=True, dead_letter="jobs"))
    return identity
