"""Commands of operators: a broker gets them from PostgreSQL, on a channel of its own, wherever the operator is.

A command is lost when the broker cannot listen just then, and one that has become pointless is ignored: the operator
sees what happened, and may give it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)


def execute(command: str, runtime: Runtime) -> None:
    """Do what an operator says: `drain`, or `disconnect` with the id of a client."""
    match command.split():
        case ["drain"]:
            if runtime.stop is not None:
                log.info("an operator wants broker %s to drain", runtime.name)
                runtime.stop()
        case ["disconnect", client] if client.isdecimal():
            if runtime.disconnect(int(client)):
                log.info("an operator has ended the session of client %s", client)
        case _:
            log.warning("an operator command that this broker does not know: %r", command)
