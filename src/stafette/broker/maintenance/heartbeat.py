"""Renew the broker's lease in the database, on which all its sessions depend, and publish its metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stafette.broker import diagnostics
from stafette.broker.limits import BROKER_LEASE_SECONDS

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime
    from stafette.database.brokers import Brokers

log = logging.getLogger(__name__)


class Heartbeat:
    """Renews the broker's lease; after a gap, evicts clients that have a session elsewhere.

    Its connection is its own: the lease must not run out because all others are in use.
    """

    seconds = BROKER_LEASE_SECONDS / 3

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._recent = diagnostics.Recent()

    async def round(self, runtime: Runtime) -> bool:
        """Renew, and check the sessions if that was late."""
        lease_was_valid = await self._brokers.renew(runtime.broker_id, seconds=BROKER_LEASE_SECONDS)
        if lease_was_valid is None:
            log.warning("the database has forgotten this broker; joining again")
            await runtime.join()
        if not lease_was_valid:
            await runtime.evict_lost_sessions()
        metrics = diagnostics.published_metrics(runtime, self._recent)
        await self._brokers.publish_metrics(runtime.broker_id, metrics, seconds=self.seconds)
        return False
