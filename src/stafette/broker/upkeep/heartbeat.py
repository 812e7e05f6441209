"""Stay alive in the database: the one lease on which all sessions of this broker hang. And publish its figures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stafette.broker import reports
from stafette.broker.limits import BROKER_LEASE_SECONDS
from stafette.database.ledger import Ledger

if TYPE_CHECKING:
    from stafette.broker.node import Node

log = logging.getLogger(__name__)


class Heartbeat:
    """Renews the broker's lease; after a gap, gives up the clients that others have taken in since."""

    seconds = BROKER_LEASE_SECONDS / 3

    def __init__(self) -> None:
        self._recent = reports.Recent()

    async def round(self, node: Node) -> bool:
        """Renew, and compare notes when that was late."""
        held = await node.store.renew_broker(node.broker, seconds=BROKER_LEASE_SECONDS)
        if held is None:
            log.warning("the database has forgotten this broker; joining again")
            await node.join()
        if not held:
            await node.give_up_lost_sessions()
        await Ledger(node.store).publish_figures(node.broker, reports.published(node, self._recent))
        return False
