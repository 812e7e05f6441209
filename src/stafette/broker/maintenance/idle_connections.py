"""Hang up on connections that do not say hello, finish a frame, read or leave in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class DropIdleConnections:
    """Only the few connections with a deadline are checked."""

    seconds = 1.0

    async def round(self, runtime: Runtime) -> bool:
        """Drop those whose time is up."""
        runtime.drop_idle()
        return False
