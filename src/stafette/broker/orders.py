"""Orders of operators: a broker hears them from PostgreSQL, on a channel of its own, wherever the operator is.

An order is lost when the broker cannot listen just then, and one that has become pointless is ignored: the operator
sees what happened, and may give it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette.broker.node import Node

log = logging.getLogger(__name__)


def obey(order: str, node: Node) -> None:
    """Do what an operator says: `drain`, or `disconnect` with the id of a client."""
    match order.split():
        case ["drain"]:
            if node.stop is not None:
                log.info("an operator wants broker %s to drain", node.name)
                node.stop()
        case ["disconnect", client] if client.isdecimal():
            if node.dismiss(int(client)):
                log.info("an operator has ended the session of client %s", client)
        case _:
            log.warning("an order that this broker does not know: %r", order)
