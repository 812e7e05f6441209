"""What the Store is asked to do, one struct per kind of request that comes in batches, and what it answers where the
model has no noun for it.

A request is a noun of the model with the one who asks. Clients are named by their id here: the session that speaks has
been identified before.
"""

from __future__ import annotations

import msgspec

from stafette.model import Draft, LeaseRef, Selection


class SendRequest(msgspec.Struct, frozen=True, gc=False):
    """A message to be stored. A repeated key answers with the first ids and stores nothing."""

    sender: int
    draft: Draft
    key: str | None = None


class ReadRequest(msgspec.Struct, frozen=True, gc=False):
    """A client's wish to read."""

    client: int
    selection: Selection


class LeaseRequest(ReadRequest, frozen=True, gc=False):
    """A client's wish to read under a lease of so many seconds."""

    seconds: float = 30.0


class NackRequest(LeaseRef, frozen=True, gc=False):
    """A leased message to be given back, ready after so many seconds."""

    delay: float | None = None


class ExtendRequest(LeaseRef, frozen=True, gc=False):
    """A lease that is to end so many seconds from now."""

    seconds: float


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
