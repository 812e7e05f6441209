"""Write this broker's work to the history: every 10 seconds, what is new is added to the sum over all brokers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stafette.database.maintenance import SLOT_SECONDS, Work

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class WriteHistory:
    """Rounds begin when a slot of the history ends, so that each slot gets one round's work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._written = Work()

    async def round(self, runtime: Runtime) -> bool:
        """Add the work since the last round."""
        self.seconds = until_slot()
        work = work_of(runtime)
        if work != self._written:
            await runtime.store.maintenance.add_history(work - self._written)
            self._written = work
        return False


def work_of(runtime: Runtime) -> Work:
    """All work of a broker so far."""
    metrics = runtime.core.metrics
    return Work(
        sent=metrics.sent,
        received=metrics.handed_out,
        failed=sum(metrics.failed.values()),
        refused=sum(runtime.core.admission.refusals.values()),
        requests=sum(metrics.answered.values()),
        batches=sum(metrics.batch_requests.counts),
        queue_seconds=metrics.queue_seconds.total,
        database_seconds=metrics.database_seconds.total,
    )


def until_slot(part: float = 0.0) -> float:
    """Seconds until a slot begins, or until this part of a slot has passed."""
    return SLOT_SECONDS - (time.time() - part * SLOT_SECONDS) % SLOT_SECONDS
