"""What operators get to see: the answers of the Console, one struct each.

Their field names are interface: web pages use them, and the REST API has them as JSON keys.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from stafette.model import Headers, Mode

MessageState = Literal["ready", "delayed", "leased", "dead"]
QueueOrder = Literal["name", "ready", "oldest"]
Role = Literal["admin", "viewer"]
Which = Literal["sent", "waiting"]


class MessageCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The last count of everything; who takes part, and the number of queues, are counted at the time of asking."""

    at: datetime
    seconds: float
    """How long the count took."""
    ready: int
    delayed: int
    leased: int
    dead: int
    oldest_at: datetime | None
    clients: int
    online: int
    brokers: int
    queues: int


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What happened over all brokers in the `span` seconds that begin at `at`; depths are the last known of them."""

    at: datetime
    span: int
    sent: int
    """Messages sent, one per queue."""
    received: int
    """Messages handed out, by a receive or a lease."""
    failed: int
    refused: int
    requests: int
    batches: int
    queue_seconds: float
    """How long requests waited for the database, added up."""
    database_seconds: float
    """How long batches took there, added up."""
    ready: int | None
    delayed: int | None
    leased: int | None
    dead: int | None
    online: int | None


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages were ready in a queue."""

    at: datetime
    messages: int


class NameCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many for each name; '' stands for anyone."""

    name: str
    count: int


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in a list; its numbers are as of the last count, and 0 when it is newer."""

    id: int
    name: str
    creator: str
    created_at: datetime
    owner: str | None
    ready: int
    delayed: int
    leased: int
    dead: int
    oldest_at: datetime | None
    exclude_own: bool
    max_body: int
    max_deliveries: int
    dead_letter: str | None


class QueueDetails(QueueRow, frozen=True, kw_only=True):
    """One queue, with numbers of now where they can be had quickly."""

    exact: bool
    """Whether all was counted just now; else the states with more than 10,000 are as of the last count."""
    counted_at: datetime
    top_senders: list[NameCount]
    """Of the first 10,000 ready messages, like the receivers."""
    top_receivers: list[NameCount]


class MessageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages to show; what is None does not matter."""

    sender: str | None = None
    receiver: str | None = None
    """'': without a receiver."""
    context: int | None = None
    priority: int | None = None
    older_than: float | None = None
    """Seconds since arrival, like the next."""
    newer_than: float | None = None
    text: str | None = None
    """Occurs in the body, as UTF-8, letter by letter."""


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What rows and details of a message have in common."""

    id: int
    queue: str
    state: MessageState
    sender: str
    receiver: str | None
    context: int | None
    priority: int
    arrived_at: datetime
    deliveries: int
    size: int
    headers: Headers | None
    due_at: datetime | None
    leased_until: datetime | None
    holder: str | None
    died_at: datetime | None
    expires_at: datetime | None


class MessageRow(_Shown, frozen=True, kw_only=True):
    """A message in a list."""

    preview: bytes
    """The first 120 bytes of the body."""


class MessageDetails(_Shown, frozen=True, kw_only=True):
    """One message, whole."""

    body: bytes


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages, and where to go on; also a page without any may have a next one."""

    messages: list[MessageRow]
    next: str | None
    looked_at: int
    """How many messages were compared with the filter for this page."""


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """A registered client, and the broker through which it is online."""

    id: int
    name: str
    mode: Mode
    registered_at: datetime
    last_seen_at: datetime
    broker: str | None
    online_since: datetime | None
    has_secret: bool


class ClientDetails(ClientRow, frozen=True, kw_only=True):
    """One client, with its part in what is ready: by queue, at most 100 queues, each counted up to 1,000."""

    personal_queue: str
    sent: list[NameCount]
    waiting: list[NameCount]
    """Addressed to it."""
    leases: list[MessageRow]
    """What it holds; 100 at most."""


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, with the figures it published last."""

    id: int
    name: str
    started_at: datetime
    alive_until: datetime
    alive: bool
    clients: int
    figures: dict[str, Any] | None
    figures_at: datetime | None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search came up with: names, and for a number messages."""

    queues: list[str]
    clients: list[str]
    messages: list[MessageRow]
