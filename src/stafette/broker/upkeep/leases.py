"""Give back messages whose lease ran out; those delivered too often go to the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.upkeep import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.node import Node


class ExpireLeases:
    """Leases end by the second."""

    seconds = 1.0

    async def round(self, node: Node) -> bool:
        """Give back a thousand at most."""
        queues = await node.store.expire_leases(limit=ROWS_AT_A_TIME)
        for queue in queues:
            node.arrived(queue)
        return sum(queues.values()) >= ROWS_AT_A_TIME
