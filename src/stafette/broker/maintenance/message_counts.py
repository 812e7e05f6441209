"""Count all messages for the console. One broker at a time does it for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME
from stafette.broker.maintenance.history import until_slot
from stafette.database.maintenance import SLOT_SECONDS

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

PAUSE_SECONDS = SLOT_SECONDS - 1.0
"""How long a count is valid: a little less than a slot, else a broker that is slightly early would skip a slot."""


class CountMessages:
    """In the middle of each slot of the history, or as often as counting takes a twentieth of the time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def round(self, runtime: Runtime) -> bool:
        """Count, unless another broker has; the one that counted also deletes old history."""
        self.seconds = until_slot(0.5)
        maintenance = runtime.store.maintenance
        if await maintenance.count_all_messages(pause=PAUSE_SECONDS):
            while await maintenance.forget_history(limit=ROWS_AT_A_TIME) >= ROWS_AT_A_TIME:
                pass
        return False
