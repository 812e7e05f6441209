"""The Store: the one place that calls SQL.

Each method is one call of one stored function, hence one round trip and one commit. What comes in batches takes a list
and returns a list of the same length in which every request has its own answer or its own error, so that one bad
request never hurts its neighbours.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import asyncpg

from stafette.database.connect import (
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    SESSION_SETTINGS,
    Unstorable,
    connect,
    connect_any,
    prepare_connection,
    translated_errors,
)
from stafette.database.requests import (
    Counts,
    ExtendRequest,
    Identity,
    LeaseRequest,
    NackRequest,
    Overview,
    ReadRequest,
    SendRequest,
    Statistics,
)
from stafette.database.schema import require_current, require_durability
from stafette.errors import (
    ClientNotFound,
    InvalidRequest,
    LeaseLost,
    QueueNotFound,
    StafetteError,
    Unavailable,
    from_code,
)
from stafette.model import Client, Leased, LeaseRef, Message, Queue, QueueOptions

ACQUIRE_SECONDS = 10.0

Request = TypeVar("Request")
Answer = TypeVar("Answer")

DEFAULT_OPTIONS = QueueOptions()

_QUEUE = ", ".join(name if name == "messages" else f"(queue).{name}" for name in Queue.__struct_fields__)
"""The columns of a queue as functions answer with it, in the order of its fields."""
_NO_QUEUE = "name at least one queue to send to"
_LEASE_LOST = "the lease has run out or was given up; the message may be in other hands"


class Store:
    """All operations on one database, over a few pooled connections that come back by themselves after a failure."""

    def __init__(self, url: str, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._url = url
        self._pool = pool

    @classmethod
    async def open(cls, url: str, *, connections: int = 4, unsafe_durability: bool = False) -> Store:
        """Connect, and make sure that schema, functions and durability are as we need them."""
        probe = await connect(url)
        try:
            with translated_errors(url):
                await require_current(probe)
                if not unsafe_durability:
                    await require_durability(probe)
                pool = await asyncpg.create_pool(
                    url,
                    connect=connect_any,
                    min_size=1,
                    max_size=connections,
                    timeout=CONNECT_SECONDS,
                    command_timeout=COMMAND_SECONDS,
                    max_inactive_connection_lifetime=0,
                    server_settings=SESSION_SETTINGS,
                    init=prepare_connection,
                    reset=_leave_as_is,
                )
        finally:
            await probe.close()
        return cls(url, pool)

    async def close(self) -> None:
        """Let go of all connections once their work is done."""
        await self._pool.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Messages: batches

    async def send(self, requests: Sequence[SendRequest]) -> list[list[int] | StafetteError]:
        """Store messages; the answer to each is its id in every queue, in the order of its queues."""
        answers = await self.send_together([[request] for request in requests])
        return [answer if isinstance(answer, StafetteError) else answer[0] for answer in answers]

    async def send_together(self, groups: Sequence[Sequence[SendRequest]]) -> list[list[list[int]] | StafetteError]:
        """Store groups of messages, each group as a whole or not at all; its key is that of its first message."""
        return await self._batch(self._send, groups)

    async def receive(self, requests: Sequence[ReadRequest]) -> list[list[Message] | StafetteError]:
        """Pop what each request is due, removed in the transaction that answers."""
        return await self._batch(self._receive, requests)

    async def peek(self, requests: Sequence[ReadRequest]) -> list[list[Message] | StafetteError]:
        """Show what `receive` would pop, and leave it there."""
        return await self._batch(self._peek, requests)

    async def lease(self, requests: Sequence[LeaseRequest]) -> list[list[Leased] | StafetteError]:
        """Hand out messages that come back unless they are acknowledged in time."""
        return await self._batch(self._lease, requests)

    async def ack(self, leases: Sequence[LeaseRef]) -> list[StafetteError | None]:
        """Be done with leased messages."""
        return await self._batch(self._ack, leases)

    async def nack(self, requests: Sequence[NackRequest]) -> list[str | StafetteError | None]:
        """Give leased messages back, each after its delay; the answer is the queue in which it is ready, if it is."""
        return await self._batch(self._nack, requests)

    async def extend(self, requests: Sequence[ExtendRequest]) -> list[StafetteError | None]:
        """Let leases end later: so many seconds from now."""
        return await self._batch(self._extend, requests)

    async def _batch(
        self,
        work: Callable[[Sequence[Request]], Awaitable[list[Answer | StafetteError]]],
        requests: Sequence[Request],
    ) -> list[Answer | StafetteError]:
        """Do all at once; when the database rejects some value outright, find out whose it was by going one by one."""
        if not requests:
            return []
        try:
            return await work(requests)
        except Unstorable as error:
            if len(requests) == 1:
                return [error]
        return [answer for request in requests for answer in await self._batch(work, [request])]

    async def _send(self, groups: Sequence[Sequence[SendRequest]]) -> list[list[list[int]] | StafetteError]:
        parts = [
            (number, request.sender, queue, request.draft, group[0].key)
            for number, group in enumerate(groups)
            for request in group
            for queue in request.draft.queues
        ]
        rows = await self.fetch(
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
            faults.get(number) or _by_draft(group, message_ids)
            for number, (group, message_ids) in enumerate(zip(groups, ids, strict=True))
        ]

    async def _receive(self, requests: Sequence[ReadRequest]) -> list[list[Message] | StafetteError]:
        rows = await self.fetch("SELECT * FROM stafette.receive_batch($1, $2, $3, $4, $5, $6)", *_columns(requests))
        return _sorted_out(rows, len(requests), _message)

    async def _peek(self, requests: Sequence[ReadRequest]) -> list[list[Message] | StafetteError]:
        rows = await self.fetch("SELECT * FROM stafette.peek_batch($1, $2, $3, $4, $5, $6)", *_columns(requests))
        return _sorted_out(rows, len(requests), _message)

    async def _lease(self, requests: Sequence[LeaseRequest]) -> list[list[Leased] | StafetteError]:
        rows = await self.fetch(
            "SELECT * FROM stafette.lease_batch($1, $2, $3, $4, $5, $6, $7)",
            *_columns(requests),
            [request.seconds for request in requests],
        )
        return _sorted_out(rows, len(requests), lambda row: Leased(_message(row), row[13]))

    async def _ack(self, leases: Sequence[LeaseRef]) -> list[StafetteError | None]:
        rows = await self.fetch("SELECT stafette.ack_batch($1, $2)", *_proofs(leases))
        return _kept(rows, len(leases))

    async def _nack(self, requests: Sequence[NackRequest]) -> list[str | StafetteError | None]:
        rows = await self.fetch(
            "SELECT * FROM stafette.nack_batch($1, $2, $3)",
            *_proofs(requests),
            [request.delay for request in requests],
        )
        ready_in = {place - 1: queue for place, queue in rows}
        return [ready_in[place] if place in ready_in else LeaseLost(_LEASE_LOST) for place in range(len(requests))]

    async def _extend(self, requests: Sequence[ExtendRequest]) -> list[StafetteError | None]:
        rows = await self.fetch(
            "SELECT stafette.extend_batch($1, $2, $3)",
            *_proofs(requests),
            [request.seconds for request in requests],
        )
        return _kept(rows, len(requests))

    # Messages: one queue at a time

    async def browse(
        self, queue: str, *, viewer: int | None = None, after: int | None = None, limit: int = 100
    ) -> list[Message]:
        """A page of a queue in order of arrival: what the viewer may see, or for an operator all."""
        rows = await self.fetch("SELECT * FROM stafette.browse($1, $2, $3, $4)", viewer, queue, after, limit)
        return [_message(row) for row in rows]

    async def purge(self, client: int, queue: str) -> int:
        """Remove all that waits in a queue; returns how many."""
        return int(await self.value("SELECT stafette.purge($1, $2)", client, queue))

    async def count(self, queue: str) -> Counts:
        """How many messages a queue holds in each state."""
        rows = await self.fetch("SELECT * FROM stafette.count_messages($1)", queue)
        return Counts(*rows[0])

    async def overview(self) -> Overview:
        """The whole system in numbers."""
        rows = await self.fetch("SELECT * FROM stafette.overview()")
        return Overview(*rows[0])

    async def queue_lengths(self) -> dict[str, int]:
        """How many messages wait in each queue that holds any."""
        return dict(await self.fetch("SELECT * FROM stafette.queue_lengths()"))  # type: ignore[arg-type]

    async def statistics(self) -> Statistics:
        """PostgreSQL's own counters."""
        rows = await self.fetch("SELECT * FROM stafette.statistics()")
        return Statistics(*rows[0])

    # Queues

    async def create_queue(
        self, client: int, name: str, options: QueueOptions = DEFAULT_OPTIONS, *, exist_ok: bool = False
    ) -> Queue:
        """Make a queue."""
        [queue] = await self._queues("create_queue($1, $2, $3, $4)", client, name, options, exist_ok)
        return queue

    async def delete_queue(self, client: int, name: str, *, force: bool = False) -> None:
        """Delete an empty queue, or with force any, with all its messages."""
        await self.fetch("SELECT stafette.delete_queue($1, $2, $3)", client, name, force)

    async def queue(self, name_or_id: str | int) -> Queue:
        """One queue."""
        name, number = (name_or_id, None) if isinstance(name_or_id, str) else (None, name_or_id)
        queues = await self._queues("find_queue($1, $2)", name, number)
        if not queues:
            raise QueueNotFound(f"there is no queue {name_or_id}; create it first")
        return queues[0]

    async def personal_queue(self, client: str) -> Queue:
        """The personal queue of a client."""
        queues = await self._queues("personal_queue($1)", client)
        if not queues:
            raise ClientNotFound(f"there is no client {client}")
        return queues[0]

    async def queues(self, *, after: str = "", limit: int | None = None) -> list[Queue]:
        """Queues by name."""
        return await self._queues("list_queues($1, $2)", after, limit)

    async def waiting_queues(self, client: int, *, limit: int | None = None) -> list[Queue]:
        """The queues that hold messages addressed to this client, with how many."""
        return await self._queues("waiting_queues($1, $2)", client, limit)

    async def _queues(self, call: str, *arguments: Any) -> list[Queue]:
        rows = await self.fetch(f"SELECT {_QUEUE} FROM stafette.{call}", *arguments)  # noqa: S608  # our own names
        return [Queue(*row) for row in rows]

    # Clients and sessions

    async def register(self, name: str, *, mode: str = "full", secret: str | None = None) -> Identity:
        """Register a client, or identify one that is there: then mode and secret are those of the first time."""
        rows = await self.fetch("SELECT * FROM stafette.register($1, $2, $3)", name, mode, secret)
        return Identity(*rows[0])

    async def client(self, name: str) -> Client:
        """One registered client."""
        rows = await self.fetch("SELECT * FROM stafette.find_client($1)", name)
        if not rows:
            raise ClientNotFound(f"there is no client {name}")
        return Client(*rows[0])

    async def clients(self, *, after: str = "", limit: int | None = None) -> list[Client]:
        """Registered clients by name."""
        rows = await self.fetch("SELECT * FROM stafette.list_clients($1, $2)", after, limit)
        return [Client(*row) for row in rows]

    async def delete_client(self, name: str, *, by: int) -> None:
        """Delete a client that is offline, with its personal queue and what waits for it, for another or itself."""
        await self.fetch("SELECT stafette.delete_client($1, $2)", by, name)

    async def take_sessions(
        self, clients: Sequence[int], broker: int, *, resumed: Sequence[int] = ()
    ) -> list[int | None]:
        """Put clients online; each answer is the session's token, or None: the name has a live session, or is gone."""
        tokens = [secrets.randbits(63) for _ in clients]
        rows = await self.fetch(
            "SELECT * FROM stafette.take_sessions($1, $2, $3, $4)", clients, tokens, broker, resumed
        )
        return [token for _, token in rows]

    async def release_sessions(self, sessions: Sequence[tuple[int, int]]) -> None:
        """Take clients offline: pairs of client and token."""
        await self.fetch(
            "SELECT stafette.release_sessions($1, $2)",
            [client for client, _ in sessions],
            [token for _, token in sessions],
        )

    async def join_broker(self, name: str, *, seconds: float) -> int:
        """Report a broker for duty; it lives so long unless it renews."""
        return int(await self.value("SELECT stafette.join_broker($1, $2)", name, seconds))

    async def renew_broker(self, broker: int, *, seconds: float) -> bool | None:
        """Stay alive: True when without a gap, False when the lease had run out, None when the broker is forgotten."""
        rows = await self.fetch("SELECT stafette.renew_broker($1, $2)", broker, seconds)
        held: bool | None = rows[0][0]
        return held

    async def leave_broker(self, broker: int) -> None:
        """Sign a broker off, with all its sessions."""
        await self.fetch("SELECT stafette.leave_broker($1)", broker)

    async def broker_sessions(self, broker: int) -> dict[int, int]:
        """The sessions a broker holds: token by client."""
        return dict(await self.fetch("SELECT * FROM stafette.broker_sessions($1)", broker))  # type: ignore[arg-type]

    # Notifications between brokers

    async def announce_interests(self, broker: int, queues: Sequence[str]) -> None:
        """Say for which queues, and no others, a broker has reads parked; '' stands for any queue."""
        await self.fetch("SELECT stafette.announce_interests($1, $2)", broker, queues)

    async def interests_elsewhere(self, broker: int) -> dict[str, set[int]]:
        """Which other brokers have reads parked, by queue."""
        interests: dict[str, set[int]] = {}
        for queue, other in await self.fetch("SELECT * FROM stafette.interests_elsewhere($1)", broker):
            interests.setdefault(queue, set()).add(other)
        return interests

    async def notify_brokers(self, notifications: Sequence[tuple[int, str]]) -> None:
        """Tell brokers that there is something new in a queue."""
        await self.fetch(
            "SELECT stafette.notify_brokers($1, $2)",
            [broker for broker, _ in notifications],
            [queue for _, queue in notifications],
        )

    async def listen(self, channels: Mapping[str, Callable[[str], None]]) -> None:
        """Hand what is notified on these channels to whom it concerns, until the connection breaks."""
        connection = await connect(self._url)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            with translated_errors(self._url):
                for channel, hear in channels.items():
                    await connection.add_listener(
                        channel, lambda _connection, _pid, _channel, text, hear=hear: hear(text)
                    )
            await ended.wait()
        finally:
            connection.terminate()
        raise Unavailable("the connection that listens for bells broke")

    # Upkeep

    async def expire_leases(self, *, limit: int) -> dict[str, int]:
        """Give back messages whose lease ran out; returns how many by queue."""
        return dict(await self.fetch("SELECT * FROM stafette.expire_leases($1)", limit))  # type: ignore[arg-type]

    async def promote_delayed(self, *, limit: int) -> dict[str, int]:
        """Make delayed messages ready whose time has come; returns how many by queue."""
        return dict(await self.fetch("SELECT * FROM stafette.promote_delayed($1)", limit))  # type: ignore[arg-type]

    async def drop_expired(self, *, limit: int) -> int:
        """Remove messages past their time to live; returns how many."""
        return int(await self.value("SELECT stafette.drop_expired($1)", limit))

    async def forget_keys(self, *, limit: int) -> int:
        """Forget idempotency keys past their time; returns how many."""
        return int(await self.value("SELECT stafette.forget_keys($1)", limit))

    # The way to PostgreSQL

    async def fetch(self, sql: str, *arguments: Any, seconds: float | None = None) -> list[asyncpg.Record]:
        """The rows of one call, for this package; it may take longer than usual when `seconds` says so."""
        with translated_errors(self._url):
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                return await connection.fetch(sql, *arguments, timeout=seconds)

    async def value(self, sql: str, *arguments: Any) -> Any:
        """The one value of a call."""
        return (await self.fetch(sql, *arguments))[0][0]


async def _leave_as_is(_connection: object) -> None:
    """Our functions leave nothing behind in a session, so a returned connection needs no round trip to clean it."""


def _by_draft(group: Sequence[SendRequest], ids: list[int]) -> list[list[int]]:
    """Deal the ids of a group's messages out: to each as many as it has queues."""
    if len(group) == 1:
        return [ids]
    left = iter(ids)
    return [list(itertools.islice(left, len(request.draft.queues))) for request in group]


def _columns(requests: Sequence[ReadRequest]) -> tuple[list[Any], ...]:
    selections = [request.selection for request in requests]
    return (
        [request.client for request in requests],
        [selection.queue for selection in selections],
        [selection.sender for selection in selections],
        [selection.context for selection in selections],
        [selection.order == "arrival" for selection in selections],
        [selection.count for selection in selections],
    )


def _message(row: asyncpg.Record) -> Message:
    return Message(*row[3:13])


def _sorted_out(
    rows: Sequence[asyncpg.Record], length: int, make: Callable[[asyncpg.Record], Answer]
) -> list[list[Answer] | StafetteError]:
    """Deal rows of the type stafette.answer out to the requests they answer."""
    found: list[list[Answer]] = [[] for _ in range(length)]
    answers: list[list[Answer] | StafetteError] = list(found)
    for row in rows:
        place, fault = row[0] - 1, row[1]
        if fault is None:
            found[place].append(make(row))
        else:
            answers[place] = from_code(fault, row[2])
    return answers


def _proofs(leases: Sequence[LeaseRef]) -> tuple[list[int], list[int]]:
    return [lease.message for lease in leases], [lease.token for lease in leases]


def _kept(rows: Sequence[asyncpg.Record], length: int) -> list[StafetteError | None]:
    kept = {row[0] - 1 for row in rows}
    return [None if place in kept else LeaseLost(_LEASE_LOST) for place in range(length)]
