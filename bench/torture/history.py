"""What clients asked for and what they were answered.

Every call is written down when it begins and again when it ends, and every message has a body of its own. A call
without an end belongs to a client that was killed, and is in doubt. Times are those of one monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from stafette.errors import RequestOutcome

Kind: TypeAlias = Literal["send", "request", "receive", "lease", "ack", "nack"]

REPLY = "reply to "
"""What the body of a reply begins with; the rest is that of its request."""


class Began(msgspec.Struct, frozen=True, array_like=True, tag="began"):
    """A call is about to be made."""

    call: int
    at: float
    use: str
    kind: Kind
    client: str
    queues: tuple[str, ...]
    """Where it sends to, or reads. A request sends to the first and reads the second."""
    body: str = ""
    """What it sends, acknowledges or gives back."""
    priority: int = 5
    count: int = 1
    """How many messages a read may take."""
    seconds: float = 0.0
    """How long a lease lasts."""
    lease: int = 0
    """The call that leased what this one acknowledges or gives back."""
    expires: bool = False
    """Whether what is sent may vanish with time."""


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """A message as a reader got it."""

    id: int
    queue: str
    body: str
    priority: int = 5
    deliveries: int = 0


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """The call has returned, or raised."""

    call: int
    at: float
    outcome: RequestOutcome
    error: str = ""
    """The name of the error's class."""
    ids: tuple[int, ...] = ()
    messages: tuple[Handed, ...] = ()


Event: TypeAlias = Began | Ended


@dataclass(slots=True)
class Call:
    """A call from beginning to end; it has no end if its client was killed."""

    began: Began
    ended: Ended | None = None

    @property
    def outcome(self) -> RequestOutcome:
        """What became of it, as far as its client could know."""
        return "unknown" if self.ended is None else self.ended.outcome

    @property
    def end(self) -> float:
        """When it ended."""
        return float("inf") if self.ended is None else self.ended.at


class History:
    """The calls of all clients, in the order in which they began."""

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self.answers: Counter[str] = Counter()
        """Answered calls by use, which shows whether a use makes progress."""

    def add(self, event: Event) -> None:
        """Write an event down."""
        if isinstance(event, Began):
            self.calls[event.call] = Call(event)
            return
        call = self.calls[event.call]
        call.ended = event
        self.answers[call.began.use] += event.outcome == "done"

    def of_use(self, use: str) -> list[Call]:
        """The calls of one use."""
        return [call for call in self.calls.values() if call.began.use == use]


def settle_sends(calls: Iterable[Call], stored: set[str]) -> None:
    """Sends in a transaction that also wrote a row are never in doubt: the rows say which were committed."""
    for call in calls:
        if call.began.kind == "send" and call.outcome == "unknown":
            outcome: RequestOutcome = "done" if call.began.body in stored else "not done"
            call.ended = Ended(call.began.call, call.end, outcome)


def settle_reads(calls: list[Call], taken: Sequence[Handed]) -> list[Call]:
    """The same for reads: what was read is what rows were written for, each a read of its own."""
    sends = [call for call in calls if call.began.kind != "receive"]
    reads = [
        Call(Began(-number, 0.0, "", "receive", "", (handed.queue,)), Ended(-number, 0.0, "done", messages=(handed,)))
        for number, handed in enumerate(taken, start=1)
    ]
    return sends + reads


def longest_silence(calls: Iterable[Call]) -> float:
    """The longest time between two answers, in seconds."""
    answers = sorted(call.end for call in calls if call.outcome == "done")
    return max((later - earlier for earlier, later in pairwise(answers)), default=0.0)
