"""Messages in batches: a list of requests in, a list of the same length out.

Every request has its own answer or its own error, so one bad request never hurts its neighbours. A request is a noun of
the model with the id of the client that asks, whose session has been identified before.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import asyncpg
import msgspec

from stafette.database.connect import Unreadable, Unstorable
from stafette.database.pool import Pool
from stafette.errors import InvalidRequest, LeaseLost, StafetteError, Unavailable, from_code
from stafette.model import Ask, Draft, Leased, LeaseRef, Message, Selection

Request = TypeVar("Request")
Reading = TypeVar("Reading", bound="ReadRequest")
Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

_NO_QUEUE = "name at least one queue to send to"
_LEASE_LOST = "the lease has run out or was given up; the message may be in other hands"


DEFAULT_BUDGET = 16 * 1024 * 1024
"""Bytes of messages that a call hands out, and one message more if that is the first."""


class BatchFull(Unavailable):
    """The batch had its bytes before it came to this read: read again."""

    outcome = "not done"


class SendRequest(msgspec.Struct, frozen=True, gc=False):
    """A message to be stored. A repeated key answers with the first ids and stores nothing."""

    sender: int
    draft: Draft
    key: str | None = None


class Origin(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Where a request to read comes from. In a session, its answer is kept until a later request names it as seen."""

    max_bytes: int | None = None
    """The largest answer that the client takes; None: any."""
    token: int | None = None
    """Of the connection: the request fails if the session has moved to another. None: it comes from no session."""
    session: int | None = None
    """The number of the session; None: it has none, and the answer is not kept."""
    request: int = 0
    """The id of the request on the wire."""
    again: bool = False
    """Whether the request was sent before: if it has received something, the answer is the same."""
    seen: tuple[int, ...] = ()
    """Earlier requests whose answers have arrived."""


class ReadRequest(Origin, frozen=True, gc=False):
    """A client's request to read."""

    client: int
    selection: Selection


class LeaseRequest(ReadRequest, frozen=True, gc=False):
    """A client's request to read under a lease of so many seconds."""

    seconds: float = 30.0


class GaveUp(msgspec.Struct, frozen=True, gc=False):
    """A receive whose caller no longer waits: what it got goes back."""

    client: int
    session: int
    request: int


class NackRequest(LeaseRef, frozen=True, gc=False):
    """A leased message to be given back, ready after so many seconds."""

    delay: float | None = None


class ExtendRequest(LeaseRef, frozen=True, gc=False):
    """A lease that is to end so many seconds from now."""

    seconds: float


class Messages:
    """Sends, reads and settles messages."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.unreadable = 0
        """Requests that failed because a stored message could not be read."""

    async def send(self, requests: Sequence[SendRequest]) -> list[list[int] | StafetteError]:
        """Store messages; the answer to each is its id in every queue, in the order of its queues."""
        answers = await self.send_together([[request] for request in requests])
        return [answer if isinstance(answer, StafetteError) else answer[0] for answer in answers]

    async def send_together(self, groups: Sequence[Sequence[SendRequest]]) -> list[list[list[int]] | StafetteError]:
        """Store groups of messages, each group as a whole or not at all; its key is that of its first message."""
        return await self._batch(self._send, groups)

    # Reads. Together they get `budget` bytes, and at least one message. One that comes too late gets BatchFull.

    async def receive(
        self, requests: Sequence[ReadRequest], *, budget: int = DEFAULT_BUDGET, broker: int | None = None
    ) -> list[list[Message] | StafetteError]:
        """Pop what each request is due, removed in the transaction that answers; `broker` holds their sessions."""
        work = partial(self._receive, budget=budget, broker=broker)
        return await self._repeat_or(_message, work, requests, budget)

    async def give_back_received(self, requests: Sequence[GaveUp]) -> list[str]:
        """Put messages whose answers nobody saw back into their lanes; returns the queues that have messages again."""
        rows = await self._pool.fetch(
            "SELECT stafette.give_back_received($1, $2, $3)",
            [request.client for request in requests],
            [request.session for request in requests],
            [request.request for request in requests],
        )
        return [queue for (queue,) in rows]

    async def forget_seen(self, session: int, requests: Sequence[int]) -> None:
        """The session has seen the answers to these requests."""
        await self._pool.fetch("SELECT stafette.forget_seen($1, $2)", [session] * len(requests), requests)

    async def peek(
        self, requests: Sequence[ReadRequest], *, budget: int = DEFAULT_BUDGET
    ) -> list[list[Message] | StafetteError]:
        """Show what `receive` would pop, and leave it in its queue."""
        return await self._batch(partial(self._peek, budget=budget), requests)

    async def lease(
        self, requests: Sequence[LeaseRequest], *, budget: int = DEFAULT_BUDGET, broker: int | None = None
    ) -> list[list[Leased] | StafetteError]:
        """Hand out messages that come back unless they are acknowledged in time; `broker` holds their sessions."""
        work = partial(self._lease, budget=budget, broker=broker)
        return await self._repeat_or(_leased, work, requests, budget)

    async def ready(self, asks: Sequence[Ask]) -> list[Ask]:
        """Those of the asks for which something may be ready: one call for all reads that wait."""
        rows = await self._pool.fetch("SELECT stafette.ready_asks($1, $2, $3, $4)", *map(list, zip(*asks, strict=True)))
        return [asks[number - 1] for (number,) in rows]

    async def ack(self, leases: Sequence[LeaseRef]) -> list[StafetteError | None]:
        """Remove leased messages for good."""
        return await self._batch(self._ack, leases)

    async def nack(self, requests: Sequence[NackRequest]) -> list[str | StafetteError | None]:
        """Give leased messages back, each after its delay; the answer is the queue in which it is ready, if it is."""
        return await self._batch(self._nack, requests)

    async def extend(self, requests: Sequence[ExtendRequest]) -> list[StafetteError | None]:
        """Let leases end later: so many seconds from now."""
        return await self._batch(self._extend, requests)

    async def browse(
        self,
        queue: str,
        *,
        viewer: int | None = None,
        after: int | None = None,
        limit: int = 100,
        budget: int = DEFAULT_BUDGET,
    ) -> list[Message]:
        """A page of a queue in order of arrival: what the viewer may see, or for an operator all."""
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.browse($1, $2, $3, $4, $5)", viewer, queue, after, limit, budget
        )
        return [_message(row) for row in rows]

    async def _batch(
        self,
        work: Callable[[Sequence[Request]], Awaitable[list[Answer | StafetteError]]],
        requests: Sequence[Request],
    ) -> list[Answer | StafetteError]:
        """Do all at once; when the database rejects the batch for the sake of one request, find it by halves."""
        if not requests:
            return []
        try:
            return await work(requests)
        except (Unstorable, Unreadable) as error:
            if len(requests) == 1:
                if isinstance(error, Unreadable):
                    self.unreadable += 1
                    log.error("%s", error)
                return [error]
        middle = len(requests) // 2
        return [*await self._batch(work, requests[:middle]), *await self._batch(work, requests[middle:])]

    async def _repeat_or(
        self,
        convert: Callable[[asyncpg.Record], Answer],
        work: Callable[[Sequence[Reading]], Awaitable[list[list[Answer] | StafetteError]]],
        requests: Sequence[Reading],
        budget: int,
    ) -> list[list[Answer] | StafetteError]:
        """The same answer as before for requests that are sent again and have got something; do the others."""
        repeated = [number for number, request in enumerate(requests) if request.again and request.session is not None]
        if not repeated:
            return await self._batch(work, requests)
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.replay_batch($1, $2, $3, $4, $5)",
            [requests[number].client for number in repeated],
            [requests[number].session for number in repeated],
            [requests[number].request for number in repeated],
            [requests[number].selection.order == "arrival" for number in repeated],
            budget,
        )
        replays = zip(repeated, _answers(rows, len(repeated), convert), strict=True)
        answers = {number: messages for number, messages in replays if messages}
        others = [number for number in range(len(requests)) if number not in answers]
        answers |= dict(zip(others, await self._batch(work, [requests[number] for number in others]), strict=True))
        return [answers[number] for number in range(len(requests))]

    async def _send(self, groups: Sequence[Sequence[SendRequest]]) -> list[list[list[int]] | StafetteError]:
        parts = [
            (number, request.sender, queue, request.draft, group[0].key)
            for number, group in enumerate(groups)
            for request in group
            for queue in request.draft.queues
        ]
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.send_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            [number for number, _, _, _, _ in parts],
            [sender for _, sender, _, _, _ in parts],
            [queue for _, _, queue, _, _ in parts],
            [draft.receiver for _, _, _, draft, _ in parts],
            [draft.priority for _, _, _, draft, _ in parts],
            [draft.context for _, _, _, draft, _ in parts],
            [draft.headers for _, _, _, draft, _ in parts],
            [draft.body for _, _, _, draft, _ in parts],
            [draft.delay for _, _, _, draft, _ in parts],
            [draft.ttl for _, _, _, draft, _ in parts],
            [key for _, _, _, _, key in parts],
            [draft.allow_unknown for _, _, _, draft, _ in parts],
        )
        ids: list[list[int]] = [[] for _ in groups]
        faults: dict[int, StafetteError] = {
            number: InvalidRequest(_NO_QUEUE)
            for number, group in enumerate(groups)
            if not group or not all(request.draft.queues for request in group)
        }
        for number, message_id, fault, detail in rows:
            ids[number].append(message_id)
            if fault is not None:
                faults[number] = from_code(fault, detail)
        return [
            faults.get(number) or _ids_by_draft(group, message_ids)
            for number, (group, message_ids) in enumerate(zip(groups, ids, strict=True))
        ]

    async def _receive(
        self, requests: Sequence[ReadRequest], budget: int, broker: int | None
    ) -> list[list[Message] | StafetteError]:
        seen = [(request.session, number) for request in requests if request.session for number in request.seen]
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.receive_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
            *_columns(requests),
            budget,
            broker,
            [request.token for request in requests],
            [request.session for request in requests],
            [request.request for request in requests],
            [session for session, _ in seen],
            [number for _, number in seen],
        )
        return _answers(rows, len(requests), _message)

    async def _peek(self, requests: Sequence[ReadRequest], budget: int) -> list[list[Message] | StafetteError]:
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.peek_batch($1, $2, $3, $4, $5, $6, $7, $8)", *_columns(requests), budget
        )
        return _answers(rows, len(requests), _message)

    async def _lease(
        self, requests: Sequence[LeaseRequest], budget: int, broker: int | None
    ) -> list[list[Leased] | StafetteError]:
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.lease_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
            *_columns(requests),
            budget,
            [request.seconds for request in requests],
            [secrets.randbits(63) for _ in requests],
            broker,
            [request.token for request in requests],
            [request.session for request in requests],
            [request.request for request in requests],
        )
        return _answers(rows, len(requests), _leased)

    async def _ack(self, leases: Sequence[LeaseRef]) -> list[StafetteError | None]:
        rows = await self._pool.fetch("SELECT stafette.ack_batch($1, $2, $3)", *_lease_columns(leases))
        return _lost_leases(rows, len(leases))

    async def _nack(self, requests: Sequence[NackRequest]) -> list[str | StafetteError | None]:
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.nack_batch($1, $2, $3, $4)",
            *_lease_columns(requests),
            [request.delay for request in requests],
        )
        queues = {number - 1: queue for number, queue in rows}
        return [queues[number] if number in queues else LeaseLost(_LEASE_LOST) for number in range(len(requests))]

    async def _extend(self, requests: Sequence[ExtendRequest]) -> list[StafetteError | None]:
        rows = await self._pool.fetch(
            "SELECT stafette.extend_batch($1, $2, $3, $4)",
            *_lease_columns(requests),
            [request.seconds for request in requests],
        )
        return _lost_leases(rows, len(requests))


def _ids_by_draft(group: Sequence[SendRequest], ids: list[int]) -> list[list[int]]:
    """Deal the ids of a group's messages out: to each as many as it has queues."""
    if len(group) == 1:
        return [ids]
    remaining = iter(ids)
    return [list(itertools.islice(remaining, len(request.draft.queues))) for request in group]


def _columns(requests: Sequence[ReadRequest]) -> tuple[list[Any], ...]:
    selections = [request.selection for request in requests]
    return (
        [request.client for request in requests],
        [selection.queue for selection in selections],
        [selection.sender for selection in selections],
        [selection.context for selection in selections],
        [selection.order == "arrival" for selection in selections],
        [selection.count for selection in selections],
        [request.max_bytes for request in requests],
    )


def _message(row: asyncpg.Record) -> Message:
    return Message(*row[3:13])


def _leased(row: asyncpg.Record) -> Leased:
    return Leased(_message(row), row[13])


def _answers(
    rows: Sequence[asyncpg.Record], length: int, convert: Callable[[asyncpg.Record], Answer]
) -> list[list[Answer] | StafetteError]:
    """Deal rows of the type stafette.answer out to the requests they answer."""
    messages: list[list[Answer]] = [[] for _ in range(length)]
    answers: list[list[Answer] | StafetteError] = list(messages)
    for row in rows:
        number, fault = row[0] - 1, row[1]
        if fault is None:
            messages[number].append(convert(row))
        else:
            answers[number] = from_code(fault, row[2]) if fault else BatchFull("the batch is full; try again")
    return answers


def _lease_columns(leases: Sequence[LeaseRef]) -> tuple[list[int], list[int], list[int]]:
    return (
        [lease.client for lease in leases],
        [lease.message for lease in leases],
        [lease.token for lease in leases],
    )


def _lost_leases(rows: Sequence[asyncpg.Record], length: int) -> list[StafetteError | None]:
    """None for each lease that a row names by its number, LeaseLost for the others."""
    held = {row[0] - 1 for row in rows}
    return [None if number in held else LeaseLost(_LEASE_LOST) for number in range(length)]
