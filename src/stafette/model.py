"""The nouns of Stafette, shared by every tier: what a client, a queue and a message are.

They are immutable msgspec structs, so the same objects travel from the database's answer onto the wire, as arrays.
"""

from __future__ import annotations

import base64
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
    """The client it is addressed to; None: anyone."""
    context: int | None
    """What joins it to other messages, as sent."""
    priority: int
    """1 to 10; 10 is handed out first."""
    arrived_at: datetime
    """When it was stored."""
    deliveries: int
    """How often it has been leased, this time included."""
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
    """The client that made it; ``operator`` when it was made in the console."""
    created_at: datetime
    owner: str | None
    """Of a personal queue: the one client that reads it."""
    messages: int
    """How many are ready."""
    exclude_own: bool
    """Whether nobody is handed what it sent itself."""
    max_body: int
    """In bytes."""
    max_deliveries: int
    """How often a message is leased before it is dead."""
    dead_letter: str | None
    """The queue where dead messages go."""


class Client(msgspec.Struct, frozen=True, array_like=True):
    """A registered client, and the broker through which it is online."""

    id: int
    name: str
    mode: Mode
    registered_at: datetime
    last_seen_at: datetime
    """When a session last began or ended."""
    broker: str | None
    """The broker through which it is online; None: offline."""


def text_or_base64(body: bytes) -> tuple[str | None, str | None]:
    """A body for JSON: as text, or where it is none as base64."""
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode()
