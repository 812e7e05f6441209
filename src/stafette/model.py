"""The nouns of Stafette, shared by every tier: client, queue, message, lease.

They are immutable msgspec structs. The same structs travel on the wire and to and from the database. On the wire they
are arrays, so the order of fields is part of the protocol. Bounds are checked when a struct is decoded, not when it is
created.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta

from stafette.errors import InvalidRequest

Mode = Literal["full", "read-only"]
Order = Literal["priority", "arrival"]
Headers = dict[str, str]

Id: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name: TypeAlias = Annotated[str, Meta(max_length=1000)]
Small: TypeAlias = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Context: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=-1e9, le=1e9)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]

DEFAULT_PRIORITY = 5


class Draft(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A message as its sender writes it, for one or several queues: it is stored in all of them or in none."""

    queues: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1000)]
    body: bytes
    receiver: Name | None = None
    priority: Small = DEFAULT_PRIORITY
    context: Context | None = None
    headers: Headers | None = None
    delay: Seconds | None = None
    ttl: Seconds | None = None
    allow_unknown: bool = False


class Selection(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """Which messages a reader asks for: up to `count` that match all given fields."""

    queue: Name | None = None
    sender: Name | None = None
    context: Context | None = None
    order: Order = "priority"
    count: Count = 1


class Ask(NamedTuple):
    """What a read that waits is after: reads with the same ask wait for the same messages."""

    client: int
    queue: str | None
    sender: str | None
    context: int | None


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One message as a reader gets it. In each queue it was sent to, a message has an id of its own."""

    id: int
    queue: str
    sender: str
    receiver: str | None
    """The client it is addressed to; None: anyone."""
    context: int | None
    """The number that joins it to other messages, as sent."""
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


class Leased(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message under lease, with the token that proves it."""

    message: Message
    token: int


class LeaseRef(msgspec.Struct, frozen=True, gc=False):
    """Identifies a lease, to end or extend it: the client that holds it, the id of the message, and the token."""

    client: int
    message: int
    token: int


class Queue(msgspec.Struct, frozen=True, array_like=True):
    """A queue, and the number of its ready messages (in `waiting_queues`: those for the client that asks)."""

    id: int
    name: str
    creator: str
    """The client that created it; ``operator`` if it was created in the console."""
    created_at: datetime
    owner: str | None
    """Of a personal queue: the one client that reads it."""
    messages: int
    """Number of ready messages."""
    exclude_own: bool
    """Whether clients do not get messages that they sent themselves."""
    max_body: int
    """In bytes."""
    max_deliveries: int
    """How often a message is leased before it is dead."""
    dead_letter: str | None
    """The queue to which dead messages are moved."""


class QueueOption(msgspec.Struct, frozen=True, kw_only=True):
    """The description of one option of a queue. Command, shell, REST API, form and page are made from it."""

    kind: Literal["flag", "number", "queue"]
    """`queue`: the name of a queue that exists."""
    label: str
    """The label in forms."""
    help: str
    """What it does, in one sentence."""
    hint: str = ""
    """A further explanation in forms."""
    bounds: tuple[int, int] = (0, 0)
    """Minimum and maximum: of a number, or of the length of a name."""
    default: int | None = None
    """The default of a number."""
    unit: str = ""
    """Of a number, if it has one."""

    @property
    def type(self) -> Any:
        """Its Python type."""
        return {"flag": bool, "number": int | None, "queue": str | None}[self.kind]


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a queue treats its messages, as its creator requests it. None stands for the default.

    This is the one description of the options; the order of fields is that of forms and help. The database checks the
    bounds (functions/queues/create_queue_unchecked.sql).
    """

    exclude_own: Annotated[
        bool,
        QueueOption(
            kind="flag",
            label="Exclude own messages",
            help="A client does not get messages that it sent itself.",
        ),
    ] = False
    max_body: Annotated[
        int | None,
        QueueOption(
            kind="number",
            label="Maximum body size",
            help="Maximum size of a message's body, in bytes.",
            bounds=(0, 67_108_864),
            default=1_048_576,
            unit="bytes",
        ),
    ] = None
    max_deliveries: Annotated[
        int | None,
        QueueOption(
            kind="number",
            label="Maximum deliveries",
            help="Maximum deliveries of a message; after that it is dead.",
            hint="A message that was leased this often without being acknowledged is dead.",
            bounds=(1, 32_767),
            default=5,
        ),
    ] = None
    dead_letter: Annotated[
        str | None,
        QueueOption(
            kind="queue",
            label="Dead-letter queue",
            help="The queue to which dead messages are moved.",
            hint="An existing queue; without one, dead messages stay in this queue, where nobody receives them.",
            bounds=(1, 201),
        ),
    ] = None

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> QueueOptions:
        """The options with these values; raises InvalidRequest for a name that is not an option.

        functions/queues/read_queue_options.sql does the same for callers from SQL.
        """
        if unknown := sorted(set(values) - set(QUEUE_OPTIONS)):
            options = ", ".join(sorted(QUEUE_OPTIONS))
            raise InvalidRequest(f"a queue has no option {unknown[0]}; its options are {options}")
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"the options of a queue are not valid: {error}") from error


def _option_descriptions() -> dict[str, QueueOption]:
    hints = get_type_hints(QueueOptions, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in QueueOptions.__struct_fields__}


QUEUE_OPTIONS = _option_descriptions()
"""The description of each option, by name."""


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
    """A body for JSON: as text, or as base64 if it is not UTF-8."""
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode()
