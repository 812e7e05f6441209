"""Delete what was purged, and the messages of deleted queues and clients. Nobody can reach them any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

GRACE_SECONDS = 60.0
"""How long they are left alone. A purge counts meanwhile what it has hidden, for which a call has half of that."""

IDLE_SECONDS = 5.0
"""Between two looks when there is nothing to delete."""

SHARE = 0.25
"""Part of the time that is spent on it: however much is to be deleted, others hardly notice."""


class DeleteDiscarded:
    """A thousand rows, and then a pause of three times as long as that took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def round(self, runtime: Runtime) -> bool:
        """Delete a thousand at most."""
        began = time.monotonic()
        messages, entries = await runtime.store.maintenance.delete_discarded(limit=ROWS_AT_A_TIME, grace=GRACE_SECONDS)
        runtime.core.metrics.to_delete = entries
        self.seconds = (time.monotonic() - began) * (1 - SHARE) / SHARE if messages else IDLE_SECONDS
        return False
