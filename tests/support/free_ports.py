"""Ports for servers that must be told theirs, or where nobody is."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

BELOW = range(20_000, 32_000)
"""What systems give to programs that take any port lies higher: nobody gets one of these before its server starts."""


def free_ports(number: int) -> range:
    """So many in a row that nobody has."""
    chosen = random.SystemRandom()  # tests beside this one look for some, too
    while True:
        first = chosen.randrange(BELOW.start, BELOW.stop - number)
        ports = range(first, first + number)
        with ExitStack() as held:
            try:
                for port in ports:
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        return ports
