"""The asynchronous client.

It keeps one link to one of the brokers it knows. When the link breaks it finds another broker and continues its session
there. A request that has not been sent, changes nothing, or bears a key is then sent again; any other fails with
Unavailable, because only its caller can know whether to repeat it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

import msgspec

from stafette.client.address import Address
from stafette.client.lease import Lease, Leasing
from stafette.client.link import Link, Lost
from stafette.errors import (
    AlreadyOnline,
    InternalError,
    InvalidRequest,
    RequestTimeout,
    ServerFull,
    StafetteError,
    Unavailable,
)
from stafette.model import DEFAULT_PRIORITY, Headers, Message, Mode, Order, Queue
from stafette.model import Client as ClientInfo
from stafette.protocol import messages as wire

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between attempts to find a broker: doubling, with some chance in it so that clients do not come in step."""

BYE_SECONDS = 2.0
"""How long leaving may take before we just hang up."""

Body = bytes | bytearray | memoryview | str
Answer = TypeVar("Answer", bound=wire.Frame)


async def connect(
    url: str, *, name: str, mode: Mode = "full", secret: str | None = None, timeout: float = 30.0
) -> Client:
    """Connect to one of the brokers in the URL and say hello as `name`; it is registered the first time."""
    client = Client(Address.parse(url), name=name, mode=mode, secret=secret, timeout=timeout)
    await client.open()
    return client


class Client:
    """One client, connected under its name. Use it from one event loop; any number of tasks may share it."""

    def __init__(self, address: Address, *, name: str, mode: Mode, secret: str | None, timeout: float) -> None:
        self._address = address
        self._hello = (name, mode, secret)
        self._timeout = timeout
        self._link: Link | None = None
        self._session: int | None = None
        self._turn = 0
        self._linking = asyncio.Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """The name this client is known by."""
        return self._hello[0]

    async def open(self) -> None:
        """Find a broker; each is tried once."""
        error: StafetteError = Unavailable("the URL names no broker")
        for _ in self._address.brokers:
            try:
                self._link = await self._try_next(self._now() + self._timeout)
            except (ServerFull, Unavailable) as reason:
                error = reason
            else:
                return
        raise error

    async def close(self) -> None:
        """Hang up; the name is free when this returns."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None and link.usable:
            with contextlib.suppress(StafetteError):
                await link.ask(wire.Bye(0), self._now() + min(self._timeout, BYE_SECONDS))
        if link is not None:
            link.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Sending

    async def send(
        self,
        queue: str | Sequence[str],
        body: Body,
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
        """Send a message to one queue or to several: to all of them or to none. Returns its id in each.

        When this returns, the message is on disk. With a key, a repetition returns the first ids and sends nothing.
        """
        draft = wire.Draft(
            (queue,) if isinstance(queue, str) else tuple(queue),
            body.encode() if isinstance(body, str) else bytes(body),
            receiver, priority, context, headers, delay, ttl, allow_unknown,
        )  # fmt: skip
        answer = await self._ask(wire.Send(0, [draft], key), wire.Sent, repeatable=key is not None)
        return answer.ids[0]

    async def send_many(
        self, messages: Sequence[Mapping[str, Any] | tuple[str | Sequence[str], Body]], *, key: str | None = None
    ) -> list[list[int]]:
        """Send several messages in one round trip, all of them or none.

        Each is a pair of queue and body, or a mapping with the arguments of `send`. Returns the ids of each.
        """
        drafts = [_draft(message) for message in messages]
        if not drafts:
            return []
        answer = await self._ask(wire.Send(0, drafts, key), wire.Sent, repeatable=key is not None)
        return answer.ids

    # Reading

    async def receive(
        self,
        queue: str | None = None,
        *,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Message | None:
        """Remove the next message and return it; None when there is none, or none came within `wait` seconds."""
        selection = wire.Selection(queue, sender, context, order)
        answer = await self._ask(wire.Receive(0, selection, wait), wire.Messages, wait=wait)
        return answer.messages[0] if answer.messages else None

    async def receive_many(
        self,
        queue: str | None,
        count: int,
        *,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> list[Message]:
        """Remove up to `count` messages in one round trip, waiting at most `wait` seconds for the first."""
        selection = wire.Selection(queue, sender, context, order, count)
        return (await self._ask(wire.Receive(0, selection, wait), wire.Messages, wait=wait)).messages

    async def peek(
        self,
        queue: str | None = None,
        *,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Message | None:
        """Return what `receive` would, and leave it there."""
        selection = wire.Selection(queue, sender, context, order)
        answer = await self._ask(wire.Peek(0, selection, wait), wire.Messages, wait=wait, repeatable=True)
        return answer.messages[0] if answer.messages else None

    async def browse(self, queue: str, *, after: int | None = None, limit: int = 100) -> list[Message]:
        """A page of the messages in a queue that this client may see, in order of arrival, from after an id on."""
        return (await self._ask(wire.Browse(0, queue, after, limit), wire.Messages, repeatable=True)).messages

    # Leases

    def lease(
        self,
        queue: str | None = None,
        *,
        seconds: float = 30.0,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Leasing:
        """Take the next message for so many seconds. As a context manager: ack on success, give back on an error."""
        request = wire.Lease(0, wire.Selection(queue, sender, context, order), seconds, wait)
        return Leasing(lambda: self._lease(request))

    async def _lease(self, request: wire.Lease) -> Lease | None:
        leases = (await self._ask(request, wire.Leases, wait=request.wait)).leases
        return Lease(self, leases[0].message, leases[0].token) if leases else None

    async def ack(self, message: int, token: int) -> None:
        """Be done with a leased message."""
        await self._ask(wire.Ack(0, message, token), wire.Done)

    async def nack(self, message: int, token: int, *, delay: float | None = None) -> None:
        """Give a leased message back."""
        await self._ask(wire.Nack(0, message, token, delay), wire.Done)

    async def extend(self, message: int, token: int, seconds: float) -> None:
        """Let a lease end so many seconds from now."""
        await self._ask(wire.Extend(0, message, token, seconds), wire.Done, repeatable=True)

    # Request and response

    async def request(
        self,
        queue: str,
        body: Body,
        *,
        timeout: float | None = None,
        receiver: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        headers: Headers | None = None,
    ) -> Message:
        """Send a request and wait for the reply to it, which comes to this client's personal queue."""
        context = secrets.randbits(62)
        patience = self._timeout if timeout is None else timeout
        await self.send(
            queue, body, receiver=receiver, priority=priority, context=context, headers=headers, ttl=patience
        )
        reply = await self.receive(f"@{self.name}", context=context, wait=patience)
        if reply is None:
            raise RequestTimeout(f"nobody replied to the request in {queue} within {patience:g} seconds")
        return reply

    async def reply(
        self, message: Message, body: Body, *, priority: int | None = None, headers: Headers | None = None
    ) -> list[int]:
        """Answer a message: to its sender's personal queue, with the same context."""
        return await self.send(
            f"@{message.sender}",
            body,
            context=message.context,
            priority=message.priority if priority is None else priority,
            headers=headers,
        )

    # Queues

    async def create_queue(
        self,
        name: str,
        *,
        exclude_own: bool = False,
        exist_ok: bool = False,
        max_body: int | None = None,
        max_deliveries: int | None = None,
        dead_letter: str | None = None,
    ) -> Queue:
        """Make a queue. With `exclude_own` nobody is handed what it sent itself."""
        request = wire.CreateQueue(0, name, exclude_own, exist_ok, max_body, max_deliveries, dead_letter)
        return (await self._ask(request, wire.Queues, repeatable=exist_ok)).queues[0]

    async def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete an empty queue, or by force any, with all its messages."""
        await self._ask(wire.DeleteQueue(0, name, force), wire.Done)

    async def queue(self, name_or_id: str | int) -> Queue:
        """One queue."""
        return (await self._ask(wire.LookUpQueue(0, name_or_id), wire.Queues, repeatable=True)).queues[0]

    async def queues(self) -> list[Queue]:
        """All queues, by name."""
        return (await self._ask(wire.ListQueues(0), wire.Queues, repeatable=True)).queues

    async def waiting_queues(self, limit: int | None = None) -> list[Queue]:
        """The queues that hold messages addressed to this client; `messages` says how many."""
        return (await self._ask(wire.WaitingQueues(0, limit), wire.Queues, repeatable=True)).queues

    async def personal_queue(self, client: str | None = None) -> Queue:
        """The personal queue of a client, or one's own."""
        request = wire.LookUpPersonalQueue(0, self.name if client is None else client)
        return (await self._ask(request, wire.Queues, repeatable=True)).queues[0]

    async def purge(self, queue: str) -> int:
        """Remove all messages that wait in a queue; returns how many."""
        return (await self._ask(wire.Purge(0, queue), wire.Counted)).count

    # Clients

    async def client(self, name: str) -> ClientInfo:
        """One registered client."""
        return (await self._ask(wire.LookUpClient(0, name), wire.Clients, repeatable=True)).clients[0]

    async def clients(self) -> list[ClientInfo]:
        """All registered clients, by name."""
        return (await self._ask(wire.ListClients(0), wire.Clients, repeatable=True)).clients

    async def delete_client(self, name: str) -> None:
        """Delete a client that is offline, or oneself, which ends the session."""
        await self._ask(wire.DeleteClient(0, name), wire.Done)

    async def ping(self) -> float:
        """How many seconds it takes to the broker and back."""
        started = time.perf_counter()
        await self._ask(wire.Echo(0), wire.Echoed, repeatable=True)
        return time.perf_counter() - started

    async def echo(self, payload: bytes) -> bytes:
        """Let the broker send something back, without the database."""
        return (await self._ask(wire.Echo(0, payload), wire.Echoed, repeatable=True)).payload

    # The way to a broker

    async def _ask(
        self, request: Any, expected: type[Answer], *, wait: float | None = None, repeatable: bool = False
    ) -> Answer:
        deadline = self._now() + self._timeout + (wait or 0.0)
        while True:
            link = self._link
            if link is None or not link.usable:
                link = await self._find_link(deadline)
            try:
                answer = await link.ask(request, deadline)
            except Lost:
                if not repeatable:
                    raise
            except (msgspec.MsgspecError, TypeError, OverflowError) as error:
                raise InvalidRequest(f"cannot send that: {error}") from error
            else:
                if type(answer) is not expected:
                    raise InternalError(f"the broker answered with {type(answer).__name__}")
                return cast(Answer, answer)

    async def _find_link(self, deadline: float) -> Link:
        """Find a broker and continue the session there, trying again and again until the deadline."""
        pause = FIRST_PAUSE
        async with self._linking:
            while True:
                if self._closed:
                    raise Unavailable("the client has been closed")
                if self._link is not None and self._link.usable:
                    return self._link
                try:
                    self._link = await self._try_next(deadline)
                except (ServerFull, Unavailable, AlreadyOnline) as error:
                    pause = min(pause * 2, LONGEST_PAUSE)
                    if self._now() + pause >= deadline:
                        raise
                    if isinstance(error, AlreadyOnline) and self._session is None:
                        raise
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311

    async def _try_next(self, deadline: float) -> Link:
        broker = self._address.brokers[self._turn % len(self._address.brokers)]
        name, mode, secret = self._hello
        hello = wire.Hello(0, wire.VERSION, name, mode, secret, self._timeout, self._session)
        try:
            link = await Link.open(self._address, broker, hello, deadline=deadline)
        except StafetteError:
            self._turn += 1
            raise
        assert link.welcome is not None
        self._session = link.welcome.session
        return link

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _draft(message: Mapping[str, Any] | tuple[str | Sequence[str], Body]) -> wire.Draft:
    fields: dict[str, Any] = (
        dict(message) if isinstance(message, Mapping) else dict(zip(("queue", "body"), message, strict=True))
    )
    try:
        queue, body = fields.pop("queue"), fields.pop("body")
        return wire.Draft(
            (queue,) if isinstance(queue, str) else tuple(queue),
            body.encode() if isinstance(body, str) else bytes(body),
            **fields,
        )
    except (KeyError, TypeError) as error:
        raise InvalidRequest(f"cannot read the message {message!r}: {error}") from error
