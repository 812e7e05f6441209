"""Make delayed messages ready when their time comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class PromoteDelayed:
    """Delays are accurate to a quarter of a second."""

    seconds = 0.25

    async def round(self, runtime: Runtime) -> bool:
        """Promote a thousand at most."""
        queues = await runtime.store.maintenance.promote_delayed(limit=ROWS_AT_A_TIME)
        for queue in queues:
            if queue is not None:
                runtime.arrived(queue)
        return sum(queues.values()) >= ROWS_AT_A_TIME
