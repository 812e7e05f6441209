"""The limits of a broker. With them, overload is refused at once instead of slowing everything down."""

from __future__ import annotations

from dataclasses import dataclass

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

HELLO_FRAME = 16 * KIBIBYTE
"""The largest frame before a hello: names and secrets are short, and the client is not yet trusted."""

HELLO_SECONDS = 10.0
"""How long a connection may take to say hello."""

HANDSHAKE_SECONDS = 5.0
"""How long a TLS handshake may take, before the time for the hello begins."""

SILENT_CONNECTIONS = 1_000
"""Connections that have not said hello, wherever they come from; beyond, the oldest gives way."""

SILENT_SECONDS = 3.0
"""How long a connection may be silent in any case: a program with thousands of clients takes so long for its hellos."""

PENDING_HELLOS = 10_000
"""Hellos that are not answered; beyond, the oldest gives way. It is the number of sessions: all may come at once."""

SECRETS_WAITING = 1_000
"""Hellos that wait for their secret to be checked; beyond, the oldest gives way. It takes 20 s to check so many, and
clients wait for 30."""

HELLO_BATCH = 256
"""Hellos in one database call: reads of a broker that loses sessions wait for it, some 20 ms."""

SECRETS_AT_ONCE = 2
"""Secrets that are checked at the same time. Each keeps a processor busy for 40 ms, and others want it too."""

FRAME_SECONDS = 10.0
"""How long the rest of a frame may take to arrive."""

READ_SECONDS = 10.0
"""How long a client with too many unread bytes may take to read FAIR_READ of them."""

HANG_UP_SECONDS = 10.0
"""How long a client may take to read its last answers and hang up."""

UNREAD_BYTES = 8 * MEBIBYTE
"""Unread bytes of a client from which on no more requests are taken from it."""

FAIR_READ = MEBIBYTE
"""Bytes that such a client must read in READ_SECONDS, or it is disconnected."""

LARGE_FRAME = 256 * KIBIBYTE
"""Bytes of a frame from which on it is read only when there is room for all of it."""

LARGE_FRAMES = 64 * MEBIBYTE
"""Bytes of large frames that may be arriving at the same time, over all connections; the others wait for their turn."""

LARGE_SEND_BYTES = 256 * KIBIBYTE
"""Bytes from which on a run of sends goes apart from the others, which need not wait until it is stored."""

SMALL_SHARE = MEBIBYTE
"""Bytes in flight that a client may have even when others use up half of what the broker takes."""

UNSENT_CHECK = 8 * MEBIBYTE
"""Bytes of answers after which the unread bytes of all clients are added up again."""

BROKER_LEASE_SECONDS = 10.0
"""How long the names of a crashed broker's clients stay taken. A broker renews its lease three times as often."""

REPLAY_SECONDS = 120.0
"""How long a client whose answer was lost gets the same messages again. After that they are dropped: to hand them out
might be the second time."""


@dataclass(frozen=True)
class Limits:
    """The limits an operator may set."""

    clients: int = 10_000
    """Concurrent sessions; beyond, a hello is answered with ServerFull."""

    in_flight: int = 20_000
    """Requests accepted and not yet answered, over all connections; beyond, Overloaded."""

    in_flight_per_client: int = 1_000
    """The same for one connection."""

    in_flight_bytes: int = 256 * MEBIBYTE
    """Bytes of the requests in flight, over all connections; beyond, Overloaded. Half is kept for small clients."""

    in_flight_bytes_per_client: int = 64 * MEBIBYTE
    """The same for one connection; a request that is larger than that is MessageTooLarge."""

    frame: int = 16 * MEBIBYTE
    """The largest frame of a session."""

    batch: int = 512
    """Requests in one database call: enough to amortise the commit, few enough to answer soon."""

    batch_bytes: int = 4 * MEBIBYTE
    """Bytes of the requests in one database call, or more if the first request alone has more: nobody else is served
    while they are encoded."""

    answer: int = 16 * MEBIBYTE
    """Bytes of messages in the answers of one database call, or more if the first message alone has more."""

    unsent: int = 128 * MEBIBYTE
    """Unread bytes of all clients together; beyond, the client with the most is disconnected."""

    connections: int = 4
    """Concurrent database calls."""
