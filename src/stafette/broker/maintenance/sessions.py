"""Forget sessions that ended so long ago that nobody can continue them any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class ForgetSessions:
    """Sessions can be continued for an hour; a minute more does no harm."""

    seconds = 60.0

    async def round(self, runtime: Runtime) -> bool:
        """Forget a thousand at most."""
        return await runtime.store.maintenance.forget_sessions(limit=ROWS_AT_A_TIME) >= ROWS_AT_A_TIME
