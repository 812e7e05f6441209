"""Hang up on connections that owe us a hello, or the end of a frame, for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette.broker.node import Node


class DropDebtors:
    """A look over the few that owe something."""

    seconds = 1.0

    async def round(self, node: Node) -> bool:
        """Drop those over the limit."""
        node.drop_debtors()
        return False
