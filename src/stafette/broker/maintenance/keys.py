"""Forget idempotency keys whose time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stafette.broker.maintenance import ROWS_AT_A_TIME

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class ForgetKeys:
    """Keys live for a day; a minute more does no harm."""

    seconds = 60.0

    async def round(self, runtime: Runtime) -> bool:
        """Forget a thousand at most."""
        return await runtime.store.maintenance.forget_keys(limit=ROWS_AT_A_TIME) >= ROWS_AT_A_TIME
