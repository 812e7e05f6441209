"""Forget idempotency keys whose time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


KEYS_AT_A_TIME = 10_000
"""More than of messages: nobody waits for the lock of a key that has expired."""


class ForgetKeys:
    """Keys live for hours, and one that has expired counts as new: a minute more does no harm."""

    seconds = 60.0

    async def round(self, runtime: Runtime) -> bool:
        """Forget ten thousand at most."""
        return await runtime.store.maintenance.forget_keys(limit=KEYS_AT_A_TIME) >= KEYS_AT_A_TIME
