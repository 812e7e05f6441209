"""The console's view of a store."""

from __future__ import annotations

import pytest

from stafette.database.console import Console
from stafette.database.requests import Identity
from stafette.database.store import Store
from stafette.model import QueueOptions


@pytest.fixture
def console(store: Store) -> Console:
    return Console(store)


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.register("alice")
    await store.register("bob", secret="a hash")
    await store.create_queue(identity.id, "jobs", QueueOptions(max_deliveries=1))
    await store.create_queue(identity.id, "Audit", QueueOptions(exclude_own=True, dead_letter="jobs"))
    return identity
