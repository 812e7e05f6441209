"""Give back messages whose lease ran out; those delivered too often go to the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class ExpireLeases:
    """Leases end by the second."""

    seconds = 1.0

    async def round(self, runtime: Runtime) -> bool:
        """Give back a thousand at most."""
        queues = await runtime.store.maintenance.expire_leases(limit=ROWS_AT_A_TIME)
        for queue in queues:
            if queue is not None:
                runtime.arrived(queue)
        return sum(queues.values()) >= ROWS_AT_A_TIME
