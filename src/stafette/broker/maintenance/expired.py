"""Delete messages whose time to live is over. They are invisible already; this frees their space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class DropExpired:
    """No client waits for it, so it runs seldom."""

    seconds = 5.0

    async def round(self, runtime: Runtime) -> bool:
        """Drop a thousand at most."""
        return await runtime.store.maintenance.drop_expired(limit=ROWS_AT_A_TIME) >= ROWS_AT_A_TIME
