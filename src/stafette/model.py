"""The nouns of Stafette, shared by every tier: what a client, a queue and a message are.

They are immutable msgspec structs, so the same objects travel from the database's answer onto the wire, as arrays.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Mode = Literal["full", "read-only"]
Order = Literal["priority", "arrival"]
Headers = dict[str, str]

DEFAULT_PRIORITY = 5


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One message as a reader gets it. In each queue it was sent to, a message has an id of its own."""

    id: int
    queue: str
    sender: str
    receiver: str | None
    context: int | None
    priority: int
    arrived_at: datetime
    deliveries: int
    headers: Headers | None
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8 text."""
        return self.body.decode()


class Queue(msgspec.Struct, frozen=True, array_like=True):
    """A queue, and how many messages wait in it (for `waiting_queues`: for the one who asks)."""

    id: int
    name: str
    creator: str
    created_at: datetime
    owner: str | None
    messages: int
    exclude_own: bool
    max_body: int
    max_deliveries: int
    dead_letter: str | None


class Client(msgspec.Struct, frozen=True, array_like=True):
    """A registered client, and the broker through which it is online."""

    id: int
    name: str
    mode: Mode
    registered_at: datetime
    last_seen_at: datetime
    broker: str | None
