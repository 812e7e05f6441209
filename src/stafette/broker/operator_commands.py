"""Commands of operators: a broker gets them from PostgreSQL, on its own channel, so an operator can be anywhere.

A command is lost if the broker is not listening at that moment. One that no longer applies is ignored. The operator
sees the state and can repeat the command.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)


def execute(command: str, runtime: Runtime) -> None:
    """Execute a command: `drain`, or `disconnect` with the id of a client."""
    match command.split():
        case ["drain"]:
            if runtime.stop is not None:
                log.info("an operator drains broker %s", runtime.name)
                runtime.stop()
        case ["disconnect", client] if client.isdecimal():
            if runtime.disconnect(int(client)):
                log.info("an operator has ended the session of client %s", client)
        case _:
            log.warning("unknown operator command: %r", command)
