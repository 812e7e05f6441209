"""Commands of operators: a broker reads them from the database, so an operator can be anywhere.

Only those who may write to the database's table of commands can give one. A notification tells the broker to read them,
and nothing else: anybody can send one. A command that no longer applies is ignored. The operator sees the state and can
repeat the command.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stafette.database.brokers import Command, Disconnect, Drain

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)


def execute(command: Command, runtime: Runtime) -> None:
    """Drain the broker, or end the session of a client."""
    match command:
        case Drain():
            if runtime.stop is not None:
                log.info("an operator drains broker %s", runtime.name)
                runtime.stop()
        case Disconnect(client, token):
            if runtime.disconnect(client, token):
                log.info("an operator has ended the session of client %s", client)
