"""What travels in a frame: one struct per request and answer, as a MessagePack array ``[kind, id, field, …]``.

The id is the client's choice; an answer bears the id of its request. Kinds below 100 are requests, the others answers.
msgspec checks types and sizes while decoding; whether values make sense is for the database to say, in its own words.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from stafette.errors import BY_CODE, InvalidRequest, StafetteError, from_code
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

VERSION = 1


class Frame(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The beginning of every request and answer."""

    id: Id


# Requests


class Hello(Frame, tag=1):
    """The first request: who speaks, in which version and mode. `resume` is the token of the session it continues."""

    version: int
    name: str
    mode: Mode = "full"
    secret: str | None = None
    timeout: Seconds = 30.0
    resume: int | None = None


class Echo(Frame, tag=2):
    """Give me this back."""

    payload: bytes = b""


class Bye(Frame, tag=3):
    """I am leaving; free my name, say so, and hang up."""


class Cancel(Frame, tag=4):
    """End the wait of an earlier read of mine: it is answered at once, with nothing unless it just got something."""

    request: Id


class Send(Frame, tag=10):
    """Store messages, all of them or none. A repeated key answers with the first ids and stores nothing."""

    drafts: Annotated[list[Draft], Meta(min_length=1, max_length=10_000)]
    key: str | None = None


class Receive(Frame, tag=11):
    """Remove messages and give them to me, waiting so many seconds for the first."""

    selection: Selection
    wait: Seconds | None = None


class Peek(Frame, tag=12):
    """Show what `Receive` would give, and leave it."""

    selection: Selection
    wait: Seconds | None = None


class Lease(Frame, tag=13):
    """Give me messages for so many seconds."""

    selection: Selection
    seconds: Seconds = 30.0
    wait: Seconds | None = None


class Ack(Frame, tag=14):
    """I am done with a leased message."""

    message: Id
    token: int


class Nack(Frame, tag=15):
    """Take a leased message back, and make it ready after so many seconds."""

    message: Id
    token: int
    delay: Seconds | None = None


class Extend(Frame, tag=16):
    """Let my lease end so many seconds from now."""

    message: Id
    token: int
    seconds: Seconds


class Browse(Frame, tag=17):
    """Show a page of a queue in order of arrival."""

    queue: Name
    after: int | None = None
    limit: Count = 100


class CreateQueue(Frame, tag=20):
    """Make a queue. Its options are fields of their own; a new one goes to the end."""

    queue: Name
    exclude_own: bool = False
    exist_ok: bool = False
    max_body: int | None = None
    max_deliveries: int | None = None
    dead_letter: Name | None = None

    @property
    def options(self) -> QueueOptions:
        """The options as one."""
        return QueueOptions(**{name: getattr(self, name) for name in QUEUE_OPTIONS})


class DeleteQueue(Frame, tag=21):
    """Delete a queue: an empty one, or by force any."""

    queue: Name
    force: bool = False


class LookUpQueue(Frame, tag=22):
    """Show one queue, by name or id."""

    queue: Name | Id


class ListQueues(Frame, tag=23):
    """Show all queues."""


class WaitingQueues(Frame, tag=24):
    """Show the queues that hold messages for me."""

    limit: Count | None = None


class LookUpPersonalQueue(Frame, tag=25):
    """Show the personal queue of a client."""

    client: Name


class Purge(Frame, tag=26):
    """Remove all that waits in a queue."""

    queue: Name


class LookUpClient(Frame, tag=30):
    """Show one client."""

    client: Name


class ListClients(Frame, tag=31):
    """Show all clients."""


class DeleteClient(Frame, tag=32):
    """Delete a client that is offline; or me, which ends the session."""

    client: Name


Request: TypeAlias = (
    Hello | Echo | Bye | Cancel | Send | Receive | Peek | Lease | Ack | Nack | Extend | Browse | CreateQueue
    | DeleteQueue | LookUpQueue | ListQueues | WaitingQueues | LookUpPersonalQueue | Purge | LookUpClient | ListClients
    | DeleteClient
)  # fmt: skip

# Answers


class Welcome(Frame, tag=100):
    """The session is open: who you are, in which mode, through which broker, and what you may do at once."""

    version: int
    client: int
    mode: Mode
    broker: str
    session: int
    max_frame: int
    max_in_flight: int


class Done(Frame, tag=101):
    """It is done, and there is nothing more to say."""


class Failed(Frame, tag=102):
    """It was not done. The group says whose turn it is: caller, again or ours."""

    code: int
    name: str
    sentence: str
    group: str


class Sent(Frame, tag=103):
    """The ids of each stored message, one per queue."""

    ids: list[list[int]]


class Messages(Frame, tag=104):
    """Messages, in order; none is an answer too."""

    messages: list[Message]


class Leases(Frame, tag=105):
    """Messages under lease, in order."""

    leases: list[Leased]


class Queues(Frame, tag=106):
    """Queues."""

    queues: list[Queue]


class Clients(Frame, tag=107):
    """Clients."""

    clients: list[Client]


class Echoed(Frame, tag=108):
    """What you sent."""

    payload: bytes


class Counted(Frame, tag=109):
    """How many it were."""

    count: int


class Goodbye(Frame, tag=120):
    """With id 0, not an answer: send nothing more here, read your answers, then hang up.

    With the id of a request: that one was not done, because the broker is leaving; ask another.
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
    """As much of a request as an error answer needs; the rest is skipped over, and takes no memory."""

    kind: msgspec.Raw
    id: Id


_head_decoder: msgspec.msgpack.Decoder[_Head] = msgspec.msgpack.Decoder(_Head)

LONGEST_REASON = 300
"""Characters of an explanation: it may quote what was sent, and that may be as long as a frame."""


class Undecodable(InvalidRequest):
    """A payload that is no request of ours. The id is 0 when not even that can be read."""

    def __init__(self, sentence: str, request_id: int) -> None:
        super().__init__(sentence)
        self.request_id = request_id


def decode_request(payload: bytes) -> Request:
    """Read a request; raises Undecodable with its id, if it has one."""
    try:
        return _request_decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable(f"not a valid request: {str(error)[:LONGEST_REASON]}", _id_of(payload)) from error


def _id_of(payload: bytes) -> int:
    try:
        return _head_decoder.decode(payload).id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0


def decode_answer(payload: bytes) -> Answer:
    """Read an answer."""
    return _answer_decoder.decode(payload)


def failure(request_id: int, error: StafetteError) -> Failed:
    """The answer that reports an error."""
    code = error.code
    return Failed(request_id, code, BY_CODE[code].__name__, str(error), _GROUPS[code // 100])


def to_error(failed: Failed) -> StafetteError:
    """The error that an answer reports."""
    return from_code(failed.code, failed.sentence)
