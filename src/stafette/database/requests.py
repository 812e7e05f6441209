"""What the Store is asked to do, one struct per kind of request that comes in batches, and what it answers where the
model has no noun for it.

Clients are named by their id here: the session that speaks has been identified before.
"""

from __future__ import annotations

import msgspec

from stafette.model import DEFAULT_PRIORITY, Headers, Message, Order


class Send(msgspec.Struct, frozen=True, gc=False):
    """One message to one or several queues: in all of them or in none."""

    sender: int
    queues: tuple[str, ...]
    body: bytes
    receiver: str | None = None
    priority: int = DEFAULT_PRIORITY
    context: int | None = None
    headers: Headers | None = None
    delay: float | None = None
    ttl: float | None = None
    key: str | None = None
    allow_unknown: bool = False


class Ask(msgspec.Struct, frozen=True, gc=False):
    """A wish to read: up to `count` messages that match all that is given."""

    client: int
    queue: str | None = None
    sender: str | None = None
    context: int | None = None
    order: Order = "priority"
    count: int = 1


class LeaseAsk(msgspec.Struct, frozen=True, gc=False):
    """A wish to read under a lease of so many seconds."""

    ask: Ask
    seconds: float = 30.0


class Leased(msgspec.Struct, frozen=True, gc=False):
    """A message in somebody's hands. The token proves it."""

    message: Message
    token: int


class Held(msgspec.Struct, frozen=True, gc=False):
    """The proof of a lease, to end it with (`delay`: of a nack) or to extend it (`seconds`)."""

    id: int
    token: int
    delay: float | None = None
    seconds: float = 30.0


class Counts(msgspec.Struct, frozen=True):
    """How many messages a queue holds in each state."""

    ready: int
    delayed: int
    leased: int
    dead: int


class Overview(msgspec.Struct, frozen=True):
    """The whole system in numbers."""

    clients: int
    online: int
    brokers: int
    queues: int
    ready: int
    delayed: int
    leased: int
    dead: int


class Statistics(msgspec.Struct, frozen=True):
    """What PostgreSQL counts for this database; all but the last three only grow."""

    commits: int
    rollbacks: int
    blocks_read: int
    blocks_hit: int
    rows_inserted: int
    rows_deleted: int
    deadlocks: int
    wal_bytes: int
    dead_rows: int
    connections: int
    active: int


class Identity(msgspec.Struct, frozen=True):
    """What a broker needs to know of a client that says hello."""

    id: int
    name: str
    mode: str
    secret: str | None
