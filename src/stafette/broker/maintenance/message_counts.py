"""Count all messages, so that operators need not. One broker at a time does it for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME
from stafette.broker.maintenance.history import until_slot
from stafette.database.maintenance import SLOT_SECONDS

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

PAUSE_SECONDS = SLOT_SECONDS - 1.0
"""How long a count is good for: a little less than a slot, or a broker that is a moment early would miss its turn."""


class CountMessages:
    """In the middle of each slot of the history, or as often as counting takes a twentieth of the time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def round(self, runtime: Runtime) -> bool:
        """Count, unless somebody else has; who counted also forgets what is past its time."""
        self.seconds = until_slot(0.5)
        maintenance = runtime.store.maintenance
        if await maintenance.count_all_messages(pause=PAUSE_SECONDS):
            while await maintenance.forget_history(limit=ROWS_AT_A_TIME) >= ROWS_AT_A_TIME:
                pass
        return False
