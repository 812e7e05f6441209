"""Stay alive in the database: the one lease on which all sessions of this broker hang. And publish its figures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stafette.broker import diagnostics
from stafette.broker.limits import BROKER_LEASE_SECONDS

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)


class Heartbeat:
    """Renews the broker's lease; after a gap, gives up the clients that others have taken in since."""

    seconds = BROKER_LEASE_SECONDS / 3

    def __init__(self) -> None:
        self._recent = diagnostics.Recent()

    async def round(self, runtime: Runtime) -> bool:
        """Renew, and compare notes when that was late."""
        held = await runtime.store.brokers.renew(runtime.broker_id, seconds=BROKER_LEASE_SECONDS)
        if held is None:
            log.warning("the database has forgotten this broker; joining again")
            await runtime.join()
        if not held:
            await runtime.evict_lost_sessions()
        await runtime.store.brokers.publish_figures(runtime.broker_id, diagnostics.published(runtime, self._recent))
        return False
