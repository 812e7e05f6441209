"""What travels in a frame: one struct per request and answer, as a MessagePack array ``[kind, id, field, …]``.

The client chooses the id; an answer has the id of its request. Kinds below 100 are requests, the others answers.
msgspec checks types and sizes while decoding; the database checks the values.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from stafette.errors import BY_CODE, InvalidRequest, RequestOutcome, StafetteError, from_code
from stafette.model import (
    QUEUE_OPTIONS,
    Client,
    Count,
    Draft,
    Id,
    Leased,
    Message,
    Mode,
    Name,
    Queue,
    QueueOptions,
    Seconds,
    Selection,
)

VERSION = 2


MAX_SEEN = 1_000
Seen: TypeAlias = Annotated[tuple[Id, ...], Meta(min_length=0, max_length=MAX_SEEN)]
"""Requests whose answers have arrived."""


class Frame(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The beginning of every request and answer."""

    id: Id


# Requests


class Hello(Frame, tag=1):
    """The first request: the client's name, version and mode.

    `session` is a random number that the client keeps for life: who shows it again continues its session, at any
    broker. `max_answer` is the size in bytes of the largest answer that the client takes.
    """

    version: int
    name: str
    mode: Mode = "full"
    secret: str | None = None
    timeout: Seconds = 30.0
    session: Id | None = None
    max_answer: Id | None = None


class Echo(Frame, tag=2):
    """Return the payload."""

    payload: bytes = b""


class Bye(Frame, tag=3):
    """End the session: release the client's name, answer, and hang up. For `seen` see `Receive`."""

    seen: Seen = ()


class Cancel(Frame, tag=4):
    """The client gave up an earlier request: a wait ends at once, and what it took goes back to its place."""

    request: Id


class Send(Frame, tag=10):
    """Store messages, all of them or none. A repeated key answers with the first ids and stores nothing."""

    drafts: Annotated[list[Draft], Meta(min_length=1, max_length=10_000)]
    key: str | None = None


class Receive(Frame, tag=11):
    """Remove and return messages; wait up to `wait` seconds for the first.

    `again`: it is sent again, under its first id, because its answer was lost. It gets the same answer. `seen` are the
    ids of earlier receives whose answers have arrived: they will not be sent again.
    """

    selection: Selection
    wait: Seconds | None = None
    again: bool = False
    seen: Seen = ()


class Peek(Frame, tag=12):
    """Return what `Receive` would, and leave it in the queue."""

    selection: Selection
    wait: Seconds | None = None


class Lease(Frame, tag=13):
    """Lease messages for `seconds`. For `again` see `Receive`."""

    selection: Selection
    seconds: Seconds = 30.0
    wait: Seconds | None = None
    again: bool = False


class Ack(Frame, tag=14):
    """Acknowledge a leased message: it is deleted."""

    message: Id
    token: int


class Nack(Frame, tag=15):
    """Give a leased message back; it is ready again after `delay` seconds."""

    message: Id
    token: int
    delay: Seconds | None = None


class Extend(Frame, tag=16):
    """Let a lease end `seconds` from now."""

    message: Id
    token: int
    seconds: Seconds


class Browse(Frame, tag=17):
    """Show a page of a queue in order of arrival."""

    queue: Name
    after: int | None = None
    limit: Count = 100


class CreateQueue(Frame, tag=20):
    """Create a queue. Each option is a field; a new one goes to the end. For `again` see `Receive`."""

    queue: Name
    exist_ok: bool = False
    again: bool = False
    exclude_own: bool = False
    max_body: int | None = None
    max_deliveries: int | None = None
    dead_letter: Name | None = None

    @property
    def options(self) -> QueueOptions:
        """The options as one struct."""
        return QueueOptions(**{name: getattr(self, name) for name in QUEUE_OPTIONS})


class DeleteQueue(Frame, tag=21):
    """Delete a queue; with `force` also one that has messages."""

    queue: Name
    force: bool = False


class LookUpQueue(Frame, tag=22):
    """Show one queue, by name or id."""

    queue: Name | Id


class ListQueues(Frame, tag=23):
    """Show all queues."""


class WaitingQueues(Frame, tag=24):
    """Show the queues that hold messages for this client."""

    limit: Count | None = None


class LookUpPersonalQueue(Frame, tag=25):
    """Show the personal queue of a client."""

    client: Name


class Purge(Frame, tag=26):
    """Delete all ready and delayed messages of a queue."""

    queue: Name


class LookUpClient(Frame, tag=30):
    """Show one client."""

    client: Name


class ListClients(Frame, tag=31):
    """Show all clients."""


class DeleteClient(Frame, tag=32):
    """Delete a client that is offline, or this one, which ends the session."""

    client: Name


Request: TypeAlias = (
    Hello | Echo | Bye | Cancel | Send | Receive | Peek | Lease | Ack | Nack | Extend | Browse | CreateQueue
    | DeleteQueue | LookUpQueue | ListQueues | WaitingQueues | LookUpPersonalQueue | Purge | LookUpClient | ListClients
    | DeleteClient
)  # fmt: skip

# Answers


class Welcome(Frame, tag=100):
    """The session is open: the client's id and mode, the broker, and the limits."""

    version: int
    client: int
    mode: Mode
    broker: str
    max_frame: int
    max_in_flight: int
    max_in_flight_bytes: int


class Done(Frame, tag=101):
    """The request succeeded and has no result."""


class Failed(Frame, tag=102):
    """The request failed. The group says who has to act: caller, again or ours; the outcome whether it was done."""

    code: int
    name: str
    sentence: str
    group: str
    outcome: RequestOutcome


class Sent(Frame, tag=103):
    """The ids of each stored message, one per queue."""

    ids: list[list[int]]


class Messages(Frame, tag=104):
    """Messages, in order; may be empty."""

    messages: list[Message]


class Leases(Frame, tag=105):
    """Messages under lease, in order; may be empty."""

    leases: list[Leased]


class Queues(Frame, tag=106):
    """Queues."""

    queues: list[Queue]


class Clients(Frame, tag=107):
    """Clients."""

    clients: list[Client]


class Echoed(Frame, tag=108):
    """The payload of an `Echo`."""

    payload: bytes


class Counted(Frame, tag=109):
    """Number of messages deleted."""

    count: int


class Goodbye(Frame, tag=120):
    """With id 0, not an answer: send nothing more here, read the answers, then hang up.

    With the id of a request: it was not executed, because the broker is leaving; try another.
    """

    sentence: str


Answer: TypeAlias = (
    Welcome | Done | Failed | Sent | Messages | Leases | Queues | Clients | Echoed | Counted | Goodbye
)  # fmt: skip

_GROUPS = {1: "caller", 2: "again", 3: "ours"}

encode = msgspec.msgpack.Encoder().encode
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answer_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class _Head(msgspec.Struct, array_like=True):
    """The part of a request that an error answer needs; the rest is skipped, and takes no memory."""

    kind: msgspec.Raw
    id: Id


_head_decoder: msgspec.msgpack.Decoder[_Head] = msgspec.msgpack.Decoder(_Head)

MAX_DETAIL_LENGTH = 300
"""Characters of an error detail: it may quote the request, which may be as long as a frame."""


class Undecodable(InvalidRequest):
    """A payload that is not a request. The id is 0 if it cannot be read either."""

    def __init__(self, detail: str, request_id: int) -> None:
        super().__init__(detail)
        self.request_id = request_id


def decode_request(payload: bytes | memoryview) -> Request:
    """Read a request; raises Undecodable with its id, if it has one."""
    try:
        return _request_decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable(f"not a valid request: {str(error)[:MAX_DETAIL_LENGTH]}", _id_of(payload)) from error


def _id_of(payload: bytes | memoryview) -> int:
    try:
        return _head_decoder.decode(payload).id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0


def decode_answer(payload: bytes | memoryview) -> Answer:
    """Read an answer."""
    return _answer_decoder.decode(payload)


def failure(request_id: int, error: StafetteError) -> Failed:
    """The answer that reports an error."""
    code = error.code
    return Failed(request_id, code, BY_CODE[code].__name__, error.sentence, _GROUPS[code // 100], error.outcome)


def to_error(failed: Failed) -> StafetteError:
    """The error that an answer reports."""
    error = from_code(failed.code, failed.sentence)
    error.outcome = failed.outcome
    return error
