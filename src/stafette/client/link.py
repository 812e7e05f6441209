"""A link: one connection to one broker, with many requests under way on it at once."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import cast

import msgspec

from stafette.client.address import Address
from stafette.errors import InternalError, RequestTimeout, StafetteError, Unavailable
from stafette.protocol.frames import HEADER_BYTES, FrameReader, FrameTooLarge
from stafette.protocol.messages import Answer, Failed, Goodbye, Hello, Request, Welcome, decode_answer, encode, to_error

_TOO_LATE = "no answer came in time; the request may or may not have taken effect"

FRAME_LIMIT = 256 * 1024 * 1024
"""The largest answer we take: a page of messages, each at the largest size a queue allows."""


class Lost(Unavailable):
    """The connection broke while a request was under way: it may or may not have taken effect."""


class Link(asyncio.Protocol):
    """Sends requests, gives each its answer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(FRAME_LIMIT)
        self._transport: asyncio.Transport | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Answer], float]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended: StafetteError | None = None
        self.usable = True
        """False once the broker has said goodbye or the connection is gone."""
        self.welcome: Welcome | None = None

    @classmethod
    async def open(cls, address: Address, broker: tuple[str, int], hello: Hello, *, deadline: float) -> Link:
        """Connect to one broker and say hello."""
        loop = asyncio.get_running_loop()
        host, port = broker
        try:
            async with asyncio.timeout_at(deadline):
                context = address.tls_context()
                _, link = await loop.create_connection(cls, host, port, ssl=context)
        except TimeoutError as error:
            raise Unavailable(f"the broker at {host}:{port} did not answer in time; check host and port") from error
        except OSError as error:
            raise Unavailable(f"cannot reach a broker at {host}:{port}: {error}; check that it runs") from error
        try:
            welcome = await link.ask(hello, deadline)
        except BaseException:
            link.close()
            raise
        if not isinstance(welcome, Welcome):
            link.close()
            raise InternalError(f"the broker answered hello with {type(welcome).__name__}")
        link.welcome = welcome
        return link

    def ask(self, request: Request, deadline: float) -> asyncio.Future[Answer]:
        """Send a request; the future has its answer, or the error it ended in."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        if self._ended or self._transport is None:
            future.set_exception(self._ended or Lost("the connection to the broker is not open"))
            return future
        request.id = next(self._ids)
        payload = encode(request)
        self._waiting[request.id] = (future, deadline)
        self._transport.write(len(payload).to_bytes(HEADER_BYTES, "big") + payload)
        if self._alarm is None or deadline < self._alarm_at:
            self._set_alarm(deadline)
        return future

    async def writable(self) -> None:
        """Wait while the broker does not read what we have sent."""
        await self._writable.wait()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
        self._end(Unavailable("the client has been closed"))

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send small requests at once: each one is somebody waiting."""
        self._transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family != getattr(socket, "AF_UNIX", None):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Give answers to those who wait for them."""
        try:
            for payload in self._reader.feed(data):
                self._take(decode_answer(payload))
        except (FrameTooLarge, msgspec.MsgspecError) as error:
            self._end(InternalError(f"the broker sent what is not an answer: {error}"))
            if self._transport is not None:
                self._transport.abort()

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.pop(answer.id, None)
        if waiting is not None:
            future = waiting[0]
            if not future.done():
                if type(answer) is Failed:
                    future.set_exception(to_error(answer))
                else:
                    future.set_result(answer)
        elif isinstance(answer, Goodbye):
            self.usable = False
        elif isinstance(answer, Failed) and answer.id == 0:
            self._end(to_error(answer))
        if not self.usable and not self._waiting and self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        """The broker reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell everybody who waits."""
        why = f" ({error})" if error else ""
        self._end(Lost(f"the connection to the broker broke{why} before the answer came"))

    def _end(self, error: StafetteError) -> None:
        self.usable = False
        self._ended = self._ended or error
        self._writable.set()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(error)

    # Deadlines: one alarm for all, at the earliest

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.call_at(at, self._sound)

    def _sound(self) -> None:
        self._alarm = None
        now = self._loop.time()
        late = [number for number, (_, deadline) in self._waiting.items() if deadline <= now]
        for number in late:
            future, _ = self._waiting.pop(number)
            if not future.done():
                future.set_exception(
                    RequestTimeout("no answer came in time; the request may or may not have taken effect")
                )
        if self._waiting:
            self._set_alarm(min(deadline for _, deadline in self._waiting.values()))
