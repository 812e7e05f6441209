"""Write down what this broker did: every 10 seconds, what came on top is added to what all brokers did meanwhile."""

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
        """Add what was done since the last round."""
        self.seconds = until_slot()
        done = work_of(runtime)
        if done != self._written:
            await runtime.store.maintenance.add_history(done - self._written)
            self._written = done
        return False


def work_of(runtime: Runtime) -> Work:
    """All that a broker has done so far."""
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
