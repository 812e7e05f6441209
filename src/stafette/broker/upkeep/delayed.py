"""Make delayed messages ready when their time comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.upkeep import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.node import Node


class PromoteDelayed:
    """Delays are kept to a quarter of a second."""

    seconds = 0.25

    async def round(self, node: Node) -> bool:
        """Promote a thousand at most."""
        queues = await node.store.promote_delayed(limit=ROWS_AT_A_TIME)
        for queue in queues:
            node.arrived(queue)
        return sum(queues.values()) >= ROWS_AT_A_TIME
