"""How each kind of request is treated: which share a batch, which hand out messages, which a read-only client may send.

A kind that is not listed goes to the database in a call of its own and is refused to read-only clients, so a new kind
is safe by default.
"""

from __future__ import annotations

from typing import Any

from stafette.model import Selection
from stafette.protocol import messages as wire


class Operation:
    """How requests of one kind are processed: in batches or singly."""

    __slots__ = ("alone", "batched", "hands_out", "in_runs", "name")

    def __init__(
        self, name: str, *, batched: bool = True, hands_out: bool = False, in_runs: bool = True, alone: bool = False
    ) -> None:
        self.name = name
        self.batched = batched
        self.in_runs = batched and in_runs
        """Whether consecutive requests of a session may share a run."""
        self.alone = alone
        """Whether it may be in progress only once, so that however long it takes, other connections are free."""
        self.hands_out = hands_out
        """Whether it removes messages from the queue and gives them to the client."""

    def __repr__(self) -> str:
        return self.name

    def combines(self, selections: dict[str | None, Selection], request: Any) -> bool:
        """Whether a request may share a batch with the earlier ones of its run, without a change of order.

        Reads may if they have the same selection, or read different queues. `selections` has the run's selection of
        each queue.
        """
        if not self.in_runs or not self.hands_out:
            return self.in_runs
        selection: Selection = request.selection
        same = selections.setdefault(selection.queue, selection) == selection
        return same and (len(selections) == 1 or None not in selections)


SEND = Operation("send")
LARGE_SEND = Operation("large send", alone=True)
"""Runs of sends with many bytes. They have one connection at most, so that the others are for short calls."""
RECEIVE = Operation("receive", hands_out=True)
PEEK = Operation("peek")
LEASE = Operation("lease", hands_out=True)
ACK = Operation("ack")
NACK = Operation("nack")
EXTEND = Operation("extend")
GIVE_BACK = Operation("give back", in_runs=False)
SINGLE = Operation("single", batched=False)
DELETE = Operation("delete", batched=False, alone=True)

_OPERATIONS: dict[type, Operation] = {
    wire.Send: SEND,
    wire.Receive: RECEIVE,
    wire.Peek: PEEK,
    wire.Lease: LEASE,
    wire.Ack: ACK,
    wire.Nack: NACK,
    wire.Extend: EXTEND,
    wire.Cancel: GIVE_BACK,
    wire.DeleteQueue: DELETE,
    wire.DeleteClient: DELETE,
    wire.Purge: DELETE,
}

READS = frozenset(
    {
        wire.Echo, wire.Bye, wire.Cancel, wire.Peek, wire.Browse, wire.LookUpQueue, wire.ListQueues,
        wire.WaitingQueues, wire.LookUpPersonalQueue, wire.LookUpClient, wire.ListClients,
    }
)  # fmt: skip
"""Requests of read-only clients. All others may change something."""

WAITS = frozenset({wire.Receive, wire.Peek, wire.Lease})
"""Reads that may wait for a message."""


def operation_of(request: wire.Request) -> Operation:
    """The operation that serves a request."""
    return _OPERATIONS.get(type(request), SINGLE)


def seconds_to_wait(read: wire.Request) -> float:
    """How long a read may wait for a message."""
    return read.wait or 0.0  # type: ignore[union-attr]  # called for reads only


def queue_of(read: wire.Request) -> str | None:
    """The queue that a read names, if it names one."""
    queue: str | None = read.selection.queue  # type: ignore[union-attr]  # called for reads only
    return queue


def is_empty(answer: wire.Answer) -> bool:
    """Whether a read got nothing."""
    return (type(answer) is wire.Messages and not answer.messages) or (
        type(answer) is wire.Leases and not answer.leases
    )


def ends_session(name: str, request: wire.Request, answer: wire.Answer) -> bool:
    """Whether the client of this name has left, or has deleted itself."""
    leaves = type(request) is wire.Bye or (type(request) is wire.DeleteClient and request.client == name)
    return leaves and type(answer) is wire.Done
