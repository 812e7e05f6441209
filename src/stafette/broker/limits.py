"""What a broker takes on at most. Each limit is there so that overload is answered, not suffered."""

from __future__ import annotations

from dataclasses import dataclass

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

HELLO_FRAME = 16 * KIBIBYTE
"""The largest frame before a hello: names and secrets are short, and nobody is trusted yet."""

HELLO_SECONDS = 10.0
"""How long a connection may take to say hello."""

FRAME_SECONDS = 10.0
"""How long the rest of a begun frame may take to arrive."""

READ_SECONDS = 10.0
"""How long a client that leaves too much unread may take to read a fair part of it."""

HANG_UP_SECONDS = 10.0
"""How long a client may take to read its last answers and hang up."""

UNREAD_BYTES = 8 * MEBIBYTE
"""How much a client may leave unread before no more requests are taken from it."""

FAIR_READ = MEBIBYTE
"""How much of that it must read in READ_SECONDS, or it is cut off."""

BROKER_LEASE_SECONDS = 10.0
"""How long the names of a crashed broker's clients stay taken. It renews three times as often."""


@dataclass(frozen=True)
class Limits:
    """The limits an operator may set."""

    clients: int = 10_000
    """Sessions at once; beyond, a hello is answered ServerFull."""

    in_flight: int = 20_000
    """Requests accepted and not yet answered, over all connections; beyond, Overloaded."""

    in_flight_per_client: int = 1_000
    """The same for one connection."""

    frame: int = 16 * MEBIBYTE
    """The largest frame of a session."""

    batch: int = 512
    """Requests in one call of the database: enough to amortise the commit, few enough to answer soon."""

    connections: int = 4
    """Calls of the database at once."""
