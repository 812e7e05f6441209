"""The asynchronous client: one method for each kind of request. `failover` has the way to the broker."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stafette.client.address import Address
from stafette.client.failover import Failover
from stafette.client.lease import Lease, Leasing
from stafette.errors import InvalidRequest, LeaseLost, RequestTimeout, TryAgain
from stafette.model import DEFAULT_PRIORITY, Draft, Headers, Message, Mode, Order, Queue, Selection
from stafette.model import Client as ClientInfo
from stafette.protocol import messages as wire
from stafette.protocol.client import Lost

if TYPE_CHECKING:
    from stafette.trace import Trace

Body = bytes | bytearray | memoryview | str


async def connect(
    url: str,
    *,
    name: str,
    mode: Mode = "full",
    secret: str | None = None,
    timeout: float = 30.0,
    trace: Trace | None = None,
) -> Client:
    """Connect to one of the brokers in the URL as the client `name`, which is registered the first time.

    The URL is ``stafette://host:port``, with commas between several brokers; ``stafettes://`` is with TLS, and
    ``?ca=FILE`` names the certificates to trust. A name has one session at a time. The first connection of a name fixes
    its secret, if one is given, and its mode: a ``"read-only"`` client cannot change anything. `timeout` is the limit
    in seconds for connecting, and then for each request. Every request is recorded in `trace`, if one is given.
    """
    client = Client(Address.parse(url), name=name, mode=mode, secret=secret, timeout=timeout, trace=trace)
    await client.open()
    return client


class Client:
    """One client, connected under its name. Use it from one event loop; any number of tasks may share it.

    When it has as many requests or bytes in flight as its broker allows, further calls wait for their turn.
    """

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        mode: Mode,
        secret: str | None,
        timeout: float,
        trace: Trace | None = None,
    ) -> None:
        self._name = name
        self._timeout = timeout
        self._failover = Failover(address, name=name, mode=mode, secret=secret, timeout=timeout, trace=trace)
        self._ask = self._failover.ask

    @property
    def name(self) -> str:
        """The client's name."""
        return self._name

    async def open(self) -> None:
        """Find a broker; each is tried once. `connect` has done this."""
        await self._failover.open()

    async def close(self) -> None:
        """Hang up; the name is free when this returns. Requests in flight get their answers, except waiting reads."""
        await self._failover.close()

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
        """Send a message to one or several queues: to all of them or to none. Returns its id in each.

        When this returns, the message is on disk. Priorities go from 1 to 10; 10 is handed out first. A message with a
        receiver is for that client only, which must be registered unless `allow_unknown`. The message is ready after
        `delay` seconds, and is deleted unread after `ttl` seconds. `context` is a number that joins messages, such as a
        request and its reply; headers are for the application.

        With a key, a repetition within 24 hours (or as long as the operator has set) returns the first ids and sends
        nothing; so the client itself repeats the send if a connection breaks.
        """
        draft = Draft(
            (queue,) if isinstance(queue, str) else _names(queue),
            body if type(body) is bytes else _bytes(body),
            receiver, priority, context, headers, delay, ttl, allow_unknown,
        )  # fmt: skip
        answer = await self._ask(wire.Send(0, [draft], key), wire.Sent, repeatable=key is not None)
        return answer.ids[0]

    async def send_many(
        self, messages: Sequence[Mapping[str, Any] | tuple[str | Sequence[str], Body]], *, key: str | None = None
    ) -> list[list[int]]:
        """Send several messages in one round trip, all of them or none.

        Each is a pair of queue and body, or a mapping with the arguments of `send` except the key, which is for all of
        them. Returns the ids of each.
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
        """Remove the next message and return it; None if there is none, or none comes within `wait` seconds.

        At least one of queue, sender and context must be given. The highest priority comes first and within it the
        earliest; with the order ``"arrival"`` the earliest comes first.

        If the answer is lost on its way, because a connection, broker or database breaks, the client asks again until
        its timeout and gets the same message. The message of a call that is cancelled or runs out of time goes back
        into its queue. It is lost only if this process ends, or stays away from all brokers for two minutes, before
        it has the answer. Use `lease` for messages that must survive that too.
        """
        selection = Selection(queue, sender, context, order)
        answer = await self._failover.receive(wire.Receive(0, selection, wait))
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
        """Remove up to `count` messages in one round trip, waiting at most `wait` seconds for the first.

        There may be fewer although the queue has more: an answer holds as many as fit into 16 MiB, and at least one.
        """
        selection = Selection(queue, sender, context, order, count)
        return (await self._failover.receive(wire.Receive(0, selection, wait))).messages

    async def peek(
        self,
        queue: str | None = None,
        *,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Message | None:
        """Return what `receive` would, and leave it in the queue."""
        selection = Selection(queue, sender, context, order)
        request = wire.Peek(0, selection, wait)
        try:
            answer = await self._ask(request, wire.Messages, wait=wait, repeatable=True)
        except asyncio.CancelledError:
            self._failover.give_up(request)
            raise
        return answer.messages[0] if answer.messages else None

    async def browse(self, queue: str, *, after: int | None = None, limit: int = 100) -> list[Message]:
        """A page of the messages in a queue that this client may see, in order of arrival, after the id `after`."""
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
        """Lease the next message for `seconds`; if it is not acknowledged by then, others can get it.

        Await it for a lease, or None if no message came, at once or within `wait` seconds. Or enter it with
        ``async with``: the message is acknowledged at the end of the block, and given back if the block fails.
        """
        selection = Selection(queue, sender, context, order)
        return Leasing(lambda: self._lease(wire.Lease(0, selection, seconds, wait)))

    async def _lease(self, request: wire.Lease) -> Lease | None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            leases = (await self._ask(request, wire.Leases, wait=request.wait)).leases
        except asyncio.CancelledError:
            self._failover.give_up(request)
            raise
        return Lease(self, leases[0].message, leases[0].token, started + request.seconds) if leases else None

    async def _settle(self, request: wire.Ack | wire.Nack, can_end_only_now: Callable[[], bool]) -> None:
        """End a lease, also if the answer is lost on its way.

        If the lease is lost for a repetition, and nothing else can have ended it, the first request has.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        lost: Lost | None = None
        while True:
            try:
                await self._ask(request, wire.Done, timeout=max(0.0, deadline - loop.time()))
                return
            except LeaseLost as error:
                if lost is not None and can_end_only_now():
                    return
                if lost is not None:
                    error.outcome = "unknown"
                raise
            except Lost as error:
                lost = error
                request.id = 0
            except TryAgain as error:
                if lost is not None and error.outcome == "not done":
                    raise lost from error  # it may have been done the first time
                raise

    async def ack(self, message: int, token: int) -> None:
        """Acknowledge a leased message, which deletes it. Raises LeaseLost if the lease has run out."""
        await self._ask(wire.Ack(0, message, token), wire.Done)

    async def nack(self, message: int, token: int, *, delay: float | None = None) -> None:
        """Give a leased message back; it is ready at once, or after `delay` seconds.

        If it has been leased as often as its queue allows, it is dead, or moved to the dead-letter queue.
        """
        await self._ask(wire.Nack(0, message, token, delay), wire.Done)

    async def extend(self, message: int, token: int, seconds: float) -> None:
        """Let a lease end `seconds` from now."""
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
        """Send a request and wait for its reply, which comes to this client's personal queue.

        Raises RequestTimeout if none comes within `timeout` seconds, by default the timeout of `connect`. The request
        can be received for as many seconds from when it is stored; if nobody has received it by then, it is deleted. So
        somebody may still receive it after this call has ended, later by at most the time that storing it took.
        """
        limit = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        context = secrets.randbits(62)
        draft = Draft((queue,), _bytes(body), receiver, priority, context, headers, ttl=limit)
        await self._ask(wire.Send(0, [draft]), wire.Sent, timeout=limit)
        wait = max(0.0, deadline - time.monotonic())
        replies = Selection(f"@{self.name}", context=context)
        try:
            answer = await self._failover.receive(wire.Receive(0, replies, wait))
        except TryAgain as error:
            error.outcome = "unknown"  # the request has been sent, whatever became of the wait for its reply
            raise
        if not answer.messages:
            raise RequestTimeout(f"no reply to the request in {queue} came within {limit:g} seconds")
        return answer.messages[0]

    async def reply(
        self, message: Message, body: Body, *, priority: int | None = None, headers: Headers | None = None
    ) -> list[int]:
        """Reply to a message: to its sender's personal queue, with its context and, by default, its priority."""
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
        """Create a queue; with `exist_ok`, an existing one with this name is returned instead.

        With `exclude_own` a client does not get messages that it sent itself. A body has up to `max_body` bytes, by
        default one mebibyte. A message that has been leased `max_deliveries` times, by default 5, without being
        acknowledged is dead; it is moved to the queue `dead_letter`, if one is named.
        """
        request = wire.CreateQueue(
            0,
            name,
            exist_ok,
            exclude_own=exclude_own,
            max_body=max_body,
            max_deliveries=max_deliveries,
            dead_letter=dead_letter,
        )
        return (await self._ask(request, wire.Queues, repeatable=exist_ok)).queues[0]

    async def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete an empty queue; with `force` also one that has messages."""
        await self._ask(wire.DeleteQueue(0, name, force), wire.Done)

    async def queue(self, name_or_id: str | int) -> Queue:
        """One queue."""
        return (await self._ask(wire.LookUpQueue(0, name_or_id), wire.Queues, repeatable=True)).queues[0]

    async def queues(self) -> list[Queue]:
        """All queues, by name."""
        return (await self._ask(wire.ListQueues(0), wire.Queues, repeatable=True)).queues

    async def waiting_queues(self, limit: int | None = None) -> list[Queue]:
        """The queues that hold messages for this client; `messages` is their number."""
        return (await self._ask(wire.WaitingQueues(0, limit), wire.Queues, repeatable=True)).queues

    async def personal_queue(self, client: str | None = None) -> Queue:
        """The personal queue of a client, by default this one."""
        request = wire.LookUpPersonalQueue(0, self.name if client is None else client)
        return (await self._ask(request, wire.Queues, repeatable=True)).queues[0]

    async def purge(self, queue: str) -> int:
        """Delete what is ready or delayed in a queue; returns how many messages. What others sent to others stays."""
        return (await self._ask(wire.Purge(0, queue), wire.Counted)).count

    # Clients

    async def client(self, name: str) -> ClientInfo:
        """One registered client."""
        return (await self._ask(wire.LookUpClient(0, name), wire.Clients, repeatable=True)).clients[0]

    async def clients(self) -> list[ClientInfo]:
        """All registered clients, by name."""
        return (await self._ask(wire.ListClients(0), wire.Clients, repeatable=True)).clients

    async def delete_client(self, name: str) -> None:
        """Delete a client that is offline, or this one, which closes it."""
        await self._ask(wire.DeleteClient(0, name), wire.Done)
        if name == self.name:
            await self.close()

    async def ping(self) -> float:
        """The round trip time to the broker, in seconds."""
        started = time.perf_counter()
        await self._ask(wire.Echo(0), wire.Echoed, repeatable=True)
        return time.perf_counter() - started

    async def echo(self, payload: bytes) -> bytes:
        """Let the broker send a payload back, without the database."""
        return (await self._ask(wire.Echo(0, payload), wire.Echoed, repeatable=True)).payload


def _names(queues: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(queues)
    except TypeError as error:
        raise InvalidRequest(f"{queues!r} is neither the name of a queue nor a list of names") from error


def _bytes(body: Body) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeError as error:
            raise InvalidRequest(f"the body cannot be written as UTF-8: {error}") from error
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidRequest(f"a body must be bytes or text, not {type(body).__name__}")


def _draft(message: Mapping[str, Any] | tuple[str | Sequence[str], Body]) -> Draft:
    fields: dict[str, Any]
    try:
        fields = dict(message) if isinstance(message, Mapping) else dict(zip(("queue", "body"), message, strict=True))
        queue, body = fields.pop("queue"), fields.pop("body")
        return Draft((queue,) if isinstance(queue, str) else _names(queue), _bytes(body), **fields)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"cannot read the message {message!r}: {error}") from error
