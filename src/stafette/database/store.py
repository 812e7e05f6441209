"""The Store: all that is done in one database while others use it, a noun at a time, over one pool of connections."""

from __future__ import annotations

from types import TracebackType

from stafette.database.brokers import Brokers
from stafette.database.clients import Clients
from stafette.database.maintenance import Maintenance
from stafette.database.messages import Messages
from stafette.database.monitoring import Monitoring
from stafette.database.pool import Pool
from stafette.database.queues import Queues


class Store:
    """Messages, queues, clients and brokers of one database, and what keeps them in order."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.messages = Messages(pool)
        self.queues = Queues(pool)
        self.clients = Clients(pool)
        self.brokers = Brokers(pool)
        self.maintenance = Maintenance(pool)
        self.monitoring = Monitoring(pool)

    @classmethod
    async def open(
        cls, url: str, *, connections: int = 4, unsafe_durability: bool = False, key_hours: float | None = None
    ) -> Store:
        """Connect as `Pool.open` does."""
        return cls(
            await Pool.open(url, connections=connections, unsafe_durability=unsafe_durability, key_hours=key_hours)
        )

    async def close(self) -> None:
        """Close all connections once their work is done."""
        await self.pool.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
