"""Clients that talk to the database themselves, as a broker would but one request per call: a load without brokers.

A client has the methods that such a behaviour needs, named as in `stafette.aio`. All clients of a process share some
connections; the trace has the time a call waits for a connection and the time of the call itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TypeVar

from stafette.client.tracing import CANCELLED, INTENDED
from stafette.database.clients import Identity
from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.model import DEFAULT_PRIORITY, Draft, Headers, Message, Order, Queue, Selection
from stafette.protocol.trace_fields import EMPTY, OK
from stafette.trace import NOT_APPLICABLE, Trace

MOST_CONNECTIONS = 32
"""By default, for any number of clients: PostgreSQL has a process for each connection."""

Answer = TypeVar("Answer")


class DirectConnections:
    """The connections that the direct clients of a process share."""

    def __init__(self, store: Store, connections: int, trace: Trace) -> None:
        self.store = store
        self.free = asyncio.Semaphore(connections)
        """One for each connection of the store, so that calls wait here, where the wait is measured."""
        self.trace = trace

    @classmethod
    async def open(cls, url: str, *, clients: int, trace: Trace, connections: int | None = None) -> DirectConnections:
        """Connect; the default number of connections depends on the number of clients."""
        connections = connections or max(1, min(clients, MOST_CONNECTIONS))
        return cls(await Store.open(url, connections=connections), connections, trace)

    async def client(self, name: str) -> DirectClient:
        """A client with this name, registered if it is new."""
        return DirectClient(self, await self.store.clients.register(name))

    async def close(self) -> None:
        """Close the connections."""
        await self.store.close()

    async def __aenter__(self) -> DirectConnections:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class DirectClient:
    """One client of the database."""

    def __init__(self, connections: DirectConnections, identity: Identity) -> None:
        self._connections = connections
        self._store = connections.store
        self._id = identity.id
        self._name = identity.name

    @property
    def name(self) -> str:
        """The name of this client."""
        return self._name

    async def close(self) -> None:
        """Do nothing: all clients share the connections."""

    async def send(
        self,
        queue: str | Sequence[str],
        body: bytes | str,
        *,
        receiver: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        context: int | None = None,
        headers: Headers | None = None,
        delay: float | None = None,
        ttl: float | None = None,
        key: str | None = None,
        allow_unknown: bool = False,
    ) -> list[int]:
        """Send a message to one queue or to several; returns its id in each."""
        queues = (queue,) if isinstance(queue, str) else tuple(queue)
        content = body.encode() if isinstance(body, str) else bytes(body)
        draft = Draft(queues, content, receiver, priority, context, headers, delay, ttl, allow_unknown)
        send = SendRequest(self._id, draft, key)

        async def call() -> list[int]:
            return _answer(await self._store.messages.send([send]))

        return await self._call("send", call, lambda ids: (len(content), len(ids)), empty=False)

    async def receive(
        self,
        queue: str | None = None,
        *,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Message | None:
        """Remove the next message and return it. None at once when there is none: only a broker can let reads wait."""
        return await self._read(
            "receive", self._store.messages.receive, ReadRequest(self._id, Selection(queue, sender, context, order))
        )

    async def peek(
        self,
        queue: str | None = None,
        *,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Message | None:
        """Return the message that `receive` would, and leave it in the queue."""
        return await self._read(
            "peek", self._store.messages.peek, ReadRequest(self._id, Selection(queue, sender, context, order))
        )

    async def queues(self) -> list[Queue]:
        """All queues, by name."""
        return await self._call("list_queues", self._store.queues.all, _no_messages, empty=False)

    async def waiting_queues(self, limit: int | None = None) -> list[Queue]:
        """The queues that hold messages addressed to this client; `messages` says how many."""

        def call() -> Awaitable[list[Queue]]:
            return self._store.queues.waiting(self._id, limit=limit)

        return await self._call("waiting_queues", call, _no_messages, empty=False)

    async def _read(
        self,
        operation: str,
        read: Callable[[Sequence[ReadRequest]], Awaitable[list[list[Message] | StafetteError]]],
        request: ReadRequest,
    ) -> Message | None:
        async def call() -> list[Message]:
            return _answer(await read([request]))

        messages = await self._call(operation, call, _size, empty=True)
        return messages[0] if messages else None

    async def _call(
        self,
        operation: str,
        call: Callable[[], Awaitable[list[Answer]]],
        measure: Callable[[list[Answer]], tuple[int, int]],
        *,
        empty: bool,
    ) -> list[Answer]:
        """Make a call on a free connection and record it; `measure` gives bytes and messages of the answer."""
        start = time.perf_counter_ns()
        if intended := INTENDED.get():
            INTENDED.set(0)
        call_start, outcome, size = 0, CANCELLED, (0, 0)
        try:
            async with self._connections.free:
                call_start = time.perf_counter_ns()
                answer = await call()
            size = measure(answer)
            outcome = OK if answer or not empty else EMPTY
        except StafetteError as error:
            outcome = type(error).__name__
            raise
        finally:
            end = time.perf_counter_ns()
            self._connections.trace.add(
                self._name, 0, operation, outcome, intended or start, start, end,
                NOT_APPLICABLE, NOT_APPLICABLE, (call_start or end) - start,
                end - call_start if call_start else NOT_APPLICABLE,
                NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE, *size, NOT_APPLICABLE,
            )  # fmt: skip
        return answer


def _answer(answers: Sequence[list[Answer] | StafetteError]) -> list[Answer]:
    [answer] = answers
    if isinstance(answer, StafetteError):
        raise answer
    return answer


def _size(messages: list[Message]) -> tuple[int, int]:
    return sum(len(message.body) for message in messages), len(messages)


def _no_messages(_queues: list[Queue]) -> tuple[int, int]:
    return 0, 0
