"""A link: one connection to one broker, with many requests under way on it at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from typing import cast

import msgspec

from stafette.client.tracing import Passage
from stafette.errors import InternalError, MessageTooLarge, RequestTimeout, StafetteError, Unavailable
from stafette.protocol import messages as wire
from stafette.protocol.frames import FrameReader, FrameTooLarge, frame
from stafette.protocol.messages import Answer, Failed, Request, encode
from stafette.protocol.outcomes import SESSION
from stafette.protocol.sockets import keep_alive

FRAME_LIMIT = 256 * 1024 * 1024
"""The largest answer we take: a page of messages, each at the largest size a queue allows."""

UNSENT_BYTES = 1024 * 1024
"""How much may wait for a broker that does not read, before those who want to send more have to wait."""

_TOO_LATE = "no answer came in time; the request may or may not have taken effect"


class Lost(Unavailable):
    """The connection broke while a request was under way: it may or may not have taken effect."""


class HungUp(Unavailable):
    """The client was closed while a request was under way: it may or may not have taken effect."""


class TooLate(RequestTimeout):
    """No answer came in time: the request may or may not have taken effect."""


class NotAccepted(Unavailable):
    """The broker is leaving and did not do the request: another broker can."""


class Link(asyncio.Protocol):
    """Sends requests, gives each its answer."""

    def __init__(self, ids: Iterator[int], passages: dict[int, Passage] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(FRAME_LIMIT)
        self._transport: asyncio.Transport | None = None
        self._ids = ids
        self._passages = passages
        self._waiting: dict[int, tuple[asyncio.Future[Answer], float, int]] = {}
        """By the request's id: who waits for the answer, until when, and how often we had heard the broker before."""
        self._heard = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self._turnstile = asyncio.Lock()
        self._queueing = 0
        self._ended: StafetteError | None = None
        self._gone = asyncio.Event()
        self.usable = True
        """False once the broker has said goodbye or the connection is gone."""
        self.congested = False
        """Whether the broker does not read what we send, or did not and others wait in front: then wait for `room`."""
        self.welcome: wire.Welcome | None = None

    @classmethod
    async def open(
        cls,
        broker: tuple[str, int],
        hello: wire.Hello,
        *,
        tls: ssl.SSLContext | None,
        deadline: float,
        ids: Iterator[int],
        passages: dict[int, Passage] | None,
    ) -> Link:
        """Connect to one broker and say hello."""
        host, port = broker
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout_at(deadline):
                _, link = await asyncio.get_running_loop().create_connection(
                    lambda: cls(ids, passages), host, port, ssl=tls
                )
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(
                f"the broker at {place} cannot prove who it is: {error.verify_message}; name its authority in ?ca=FILE"
            ) from error
        except TimeoutError as error:
            raise Unavailable(f"the broker at {place} did not answer in time; check host and port") from error
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"cannot reach a broker at {place}: {error}; check that it runs") from error
        try:
            welcome = await link.ask(hello, deadline)
            if not isinstance(welcome, wire.Welcome):
                raise InternalError(f"the broker answered hello with {type(welcome).__name__}")
        except BaseException as error:
            link.close()
            if isinstance(error, RequestTimeout):
                raise Lost(f"the broker at {place} did not answer hello in time") from error
            raise
        link.welcome = welcome
        return link

    def ask(self, request: Request, deadline: float) -> asyncio.Future[Answer]:
        """Send a request; the future has its answer, or the error it ended in."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        if self._ended or self._transport is None:
            future.set_exception(Lost("the connection to the broker is not open"))
            return future
        request.id = next(self._ids)
        if self._passages is None or type(request) in SESSION:
            self._write(request)
        else:
            began = time.perf_counter_ns()
            size = self._write(request)
            self._passages[request.id] = Passage(began, time.perf_counter_ns(), size)
        self._waiting[request.id] = (future, deadline, self._heard)
        if self._alarm is None or deadline < self._alarm_at:
            self._set_alarm(deadline)
        return future

    def forget(self, request: Request) -> None:
        """Nobody waits for this any more: if it is a read that waits for a message, let the broker forget it too."""
        if self.usable and request.id in self._waiting and getattr(request, "wait", None):
            self._write(wire.Cancel(next(self._ids), request.id))

    async def room(self, deadline: float) -> None:
        """Wait until the broker has read enough of what we have sent; first come, first served."""
        self._queueing += 1
        try:
            async with asyncio.timeout_at(deadline), self._turnstile:
                await self._writable.wait()
        except TimeoutError as error:
            raise RequestTimeout("the broker did not read on in time; nothing has happened") from error
        finally:
            self._queueing -= 1
            self.congested = self._queueing > 0 or not self._writable.is_set()

    def close(self) -> None:
        """Hang up."""
        self._end(HungUp("the client has been closed; the request may or may not have taken effect"))
        if self._transport is not None:
            self._transport.close()

    async def closed(self, deadline: float) -> None:
        """Wait until the connection is gone, and cut it off if that takes too long."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    @property
    def over(self) -> bool:
        """Whether the connection is gone, and all requests with it."""
        return self._ended is not None

    def _write(self, request: Request) -> int:
        payload = encode(request)
        if self.welcome is not None and len(payload) > self.welcome.max_frame:
            request.id = 0  # it does not leave
            raise MessageTooLarge(
                f"the request has {len(payload)} bytes; the broker takes at most {self.welcome.max_frame} at once"
            )
        assert self._transport is not None
        self._transport.write(frame(payload))
        return len(payload)

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send small requests at once: each one is somebody waiting."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        """Give answers to those who wait for them."""
        self._heard += 1
        arrived = time.perf_counter_ns() if self._passages is not None else 0
        try:
            for payload in self._reader.feed(data):
                answer = wire.decode_answer(payload)
                if self._passages is not None and (passage := self._passages.get(answer.id)):
                    passage.arrived = arrived
                    passage.payload += len(payload)
                self._take(answer)
        except (FrameTooLarge, msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._cut(InternalError(f"the broker sent what is not an answer: {error}"))

    def _take(self, answer: Answer) -> None:
        future = self._waiting.pop(answer.id, (None,))[0]
        if future is not None and not future.done():
            if type(answer) is Failed:
                future.set_exception(wire.to_error(answer))
            elif type(answer) is wire.Goodbye:
                future.set_exception(NotAccepted(answer.sentence))
            else:
                future.set_result(answer)
        elif type(answer) is wire.Leases:
            self._give_back(answer)
        elif type(answer) is Failed and answer.id == 0:
            error = wire.to_error(answer)
            self._cut(error if self.welcome is None else Lost(f"the broker ended the connection: {error}"))
        if type(answer) is wire.Goodbye:
            self.usable = False
        if not self.usable:
            self._close_when_done()

    def _give_back(self, answer: wire.Leases) -> None:
        """Return messages whose taker no longer waits; where that fails, their leases run out."""
        if self.usable:
            for leased in answer.leases:
                self._write(wire.Nack(next(self._ids), leased.message.id, leased.token))

    def pause_writing(self) -> None:
        """The broker reads too slowly."""
        self._writable.clear()
        self.congested = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()
        self.congested = self._queueing > 0

    def connection_lost(self, error: Exception | None) -> None:
        """Tell everybody who waits."""
        why = f" ({error})" if error else ""
        self._end(Lost(f"the connection to the broker broke{why} before the answer came"))
        self._gone.set()

    def _close_when_done(self) -> None:
        if not self._waiting and self._transport is not None:
            self._transport.close()

    def _cut(self, error: StafetteError) -> None:
        self._end(error)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: StafetteError) -> None:
        self.usable = False
        self._ended = self._ended or error
        self._writable.set()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting, self._waiting = self._waiting, {}
        for future, _, _ in waiting.values():
            if not future.done():
                future.set_exception(type(error)(str(error)))  # each its own: a traceback grows where it is raised

    # Deadlines: one alarm for all, at the earliest

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.call_at(at, self._sound)

    def _sound(self) -> None:
        self._alarm = None
        now = self._loop.time()
        silent = False
        for number in [number for number, (_, deadline, _) in self._waiting.items() if deadline <= now]:
            future, _, heard = self._waiting.pop(number)
            silent = silent or heard == self._heard
            if not future.done():
                future.set_exception(TooLate(_TOO_LATE))
        if silent:  # not a byte in all the time that a request may take: try elsewhere
            self._cut(Lost("the broker has fallen silent; the request may or may not have taken effect"))
        elif self._waiting:
            self._set_alarm(min(deadline for _, deadline, _ in self._waiting.values()))
        elif not self.usable:
            self._close_when_done()
