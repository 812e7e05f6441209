"""Write down what this broker did: every 10 seconds, what came on top is added to what all brokers did meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stafette.database.ledger import SLOT_SECONDS, Ledger, Work

if TYPE_CHECKING:
    from stafette.broker.node import Node


class WriteHistory:
    """Rounds begin when a slot of the history ends, so that each slot gets one round's work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._written = Work()

    async def round(self, node: Node) -> bool:
        """Add what was done since the last round."""
        self.seconds = until_slot()
        done = work_of(node)
        if done != self._written:
            await Ledger(node.store).add_history(done - self._written)
            self._written = done
        return False


def work_of(node: Node) -> Work:
    """All that a broker has done so far."""
    figures = node.figures
    return Work(
        sent=figures.sent,
        received=figures.handed_out,
        failed=sum(figures.failed.values()),
        refused=sum(node.refusals.values()),
        requests=sum(figures.answered.values()),
        batches=sum(figures.batch_requests.counts),
        queue_seconds=figures.queue_seconds.total,
        database_seconds=figures.database_seconds.total,
    )


def until_slot(part: float = 0.0) -> float:
    """Seconds until a slot begins, or until this part of a slot has passed."""
    return SLOT_SECONDS - (time.time() - part * SLOT_SECONDS) % SLOT_SECONDS
