"""The synchronous twin of the asynchronous client: the same methods, each of which blocks until its answer.

All synchronous clients of a process share one event loop in a background thread. A method runs its asynchronous twin
on that loop and waits; anything that interrupts the wait, such as Ctrl-C, cancels the request. Any number of threads
may share a client: their requests are in flight concurrently.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from stafette.client import aio
from stafette.client.lease import Lease as AsyncLease
from stafette.errors import InvalidRequest
from stafette.model import Message, Mode, Order

if TYPE_CHECKING:
    from stafette.trace import Trace

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Background:
    """The event loop that synchronous clients share, in a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._parent_loops: list[asyncio.AbstractEventLoop] = []

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of this process, running."""
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="stafette", daemon=True).start()
            return self._loop

    def owns(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a loop belongs to this process, and not to the parent it was forked from."""
        return loop is self._loop

    def reset_after_fork(self) -> None:
        """Start over in a forked child: it has no such thread, and the parent still uses the loop's sockets."""
        if self._loop is not None:
            self._parent_loops.append(self._loop)  # never freed: closing it would affect the parent's sockets
        self._loop = None
        self._starting = threading.Lock()


_background = Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.reset_after_fork)


def _wait_for(coroutine: Coroutine[Any, Any, Result], loop: asyncio.AbstractEventLoop) -> Result:
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # it is over already, unless the wait was interrupted
        raise


def _twin(
    method: Callable[Concatenate[aio.Client, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Client, Parameters], Result]:
    """The method that waits for an asynchronous one."""

    @functools.wraps(method)
    def call(self: Client, /, *arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        return self._run(lambda client: method(client, *arguments, **options))

    return call


def connect(
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
    loop = _background.loop()
    coroutine = aio.connect(url, name=name, mode=mode, secret=secret, timeout=timeout, trace=trace)
    return Client(_wait_for(coroutine, loop), loop)


class Client:
    """One client, connected under its name. Any number of threads may share it; a forked child must connect again."""

    def __init__(self, client: aio.Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

    @property
    def name(self) -> str:
        """The client's name."""
        return self._client.name

    def close(self) -> None:
        """Hang up; the name is free when this returns. In a forked child it does nothing: the parent hangs up."""
        if _background.owns(self._loop):
            self._run(lambda client: client.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    send = _twin(aio.Client.send)
    send_many = _twin(aio.Client.send_many)

    receive = _twin(aio.Client.receive)
    receive_many = _twin(aio.Client.receive_many)
    peek = _twin(aio.Client.peek)
    browse = _twin(aio.Client.browse)

    def lease(
        self,
        queue: str | None = None,
        *,
        seconds: float = 30.0,
        sender: str | None = None,
        context: int | None = None,
        order: Order = "priority",
        wait: float | None = None,
    ) -> Lease:
        """Lease the next message for `seconds`; if it is not acknowledged by then, others can get it.

        The lease is false if no message came, at once or within `wait` seconds. As a context manager it gives the
        lease, or None: acknowledged at the end of the block, given back if the block fails.
        """

        async def take(client: aio.Client) -> AsyncLease | None:
            return await client.lease(queue, seconds=seconds, sender=sender, context=context, order=order, wait=wait)

        return Lease(self, self._run(take))

    ack = _twin(aio.Client.ack)
    nack = _twin(aio.Client.nack)
    extend = _twin(aio.Client.extend)

    request = _twin(aio.Client.request)
    reply = _twin(aio.Client.reply)

    create_queue = _twin(aio.Client.create_queue)
    delete_queue = _twin(aio.Client.delete_queue)
    queue = _twin(aio.Client.queue)
    queues = _twin(aio.Client.queues)
    waiting_queues = _twin(aio.Client.waiting_queues)
    personal_queue = _twin(aio.Client.personal_queue)
    purge = _twin(aio.Client.purge)

    client = _twin(aio.Client.client)
    clients = _twin(aio.Client.clients)
    delete_client = _twin(aio.Client.delete_client)

    ping = _twin(aio.Client.ping)
    echo = _twin(aio.Client.echo)

    def _run(self, work: Callable[[aio.Client], Coroutine[Any, Any, Result]]) -> Result:
        if not _background.owns(self._loop):
            raise InvalidRequest(f"client {self.name} was connected by the parent process; connect again in this one")
        return _wait_for(work(self._client), self._loop)


def run_within(client: Client, seconds: float, work: Callable[[aio.Client], Coroutine[Any, Any, Result]]) -> Result:
    """What `work` returns; raises TimeoutError if that takes longer than `seconds`."""

    async def work_with_timeout(async_client: aio.Client) -> Result:
        async with asyncio.timeout(seconds):
            return await work(async_client)

    return client._run(work_with_timeout)


class Lease:
    """A leased message; false, and its `message` None, if none came."""

    def __init__(self, client: Client, lease: AsyncLease | None) -> None:
        self._client = client
        self._lease = lease

    @property
    def message(self) -> Message | None:
        """The message, if one came."""
        return self._lease.message if self._lease else None

    def __bool__(self) -> bool:
        return self._lease is not None

    def ack(self) -> None:
        """Acknowledge the message, which deletes it."""
        lease = self._require_lease()
        self._client._run(lambda _: lease.ack())

    def nack(self, delay: float | None = None) -> None:
        """Give the message back; it is ready at once, or after `delay` seconds."""
        lease = self._require_lease()
        self._client._run(lambda _: lease.nack(delay))

    def extend(self, seconds: float) -> None:
        """Let the lease end `seconds` from now."""
        lease = self._require_lease()
        self._client._run(lambda _: lease.extend(seconds))

    def __enter__(self) -> Lease | None:
        return self or None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if lease := self._lease:
            self._client._run(lambda _: lease.end(success=kind is None))

    def _require_lease(self) -> AsyncLease:
        if self._lease is None:
            raise InvalidRequest("no message came, so there is no lease; check `message` first")
        return self._lease
