"""Forget what was received and never named as seen. Its client is gone, or has no more to say to us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.limits import REPLAY_SECONDS
from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class ForgetReceived:
    """A few seconds more do no harm."""

    seconds = 10.0

    async def round(self, runtime: Runtime) -> bool:
        """Forget a thousand at most."""
        forgotten, kept = await runtime.store.maintenance.forget_received(seconds=REPLAY_SECONDS, limit=ROWS_AT_A_TIME)
        runtime.core.metrics.kept = kept
        return forgotten >= ROWS_AT_A_TIME
