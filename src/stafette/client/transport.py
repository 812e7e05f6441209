"""The socket of a client's connection: it feeds `ClientConnection`, writes its frames, and completes futures."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from typing import cast

from stafette.client.tracing import LinkTiming
from stafette.errors import InternalError, RequestTimeout, StafetteError, Unavailable
from stafette.protocol import messages as wire
from stafette.protocol.client import ClientConnection, Lost, Outcome, State
from stafette.protocol.frames import HEADER_BYTES
from stafette.protocol.messages import Answer, Request
from stafette.protocol.sockets import keep_alive
from stafette.protocol.trace_fields import SESSION

UNSENT_BYTES = 1024 * 1024
"""Unsent bytes, if a broker does not read, from which on further requests have to wait."""


class Transport(asyncio.Protocol):
    """One connection to one broker: sends requests, gives each its answer."""

    def __init__(self, ids: Iterator[int], timings: dict[int, LinkTiming] | None = None) -> None:
        self.connection = ClientConnection(ids)
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.Transport
        self._timings = timings
        self._futures: dict[int, asyncio.Future[Answer]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._is_writable = True
        self._change = asyncio.Event()
        """Set when the request that waits first may be sent now, or never."""
        self._send_lock = asyncio.Lock()
        self._senders_waiting = 0
        self._closed = asyncio.Event()
        self.congested = False
        """Whether the broker reads too slowly, or other requests already wait to be sent: use `wait_for_room`."""

    @classmethod
    async def open(
        cls,
        broker: tuple[str, int],
        hello: wire.Hello,
        *,
        tls: ssl.SSLContext | None,
        deadline: float,
        ids: Iterator[int],
        timings: dict[int, LinkTiming] | None,
    ) -> tuple[Transport, wire.Welcome]:
        """Connect to one broker and say hello."""
        host, port = broker
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout_at(deadline):
                _, transport = await asyncio.get_running_loop().create_connection(
                    lambda: cls(ids, timings), host, port, ssl=tls
                )
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(
                f"the broker at {address} has no valid certificate: {error.verify_message};"
                " give the certificates to trust with ?ca=FILE"
            ) from error
        except TimeoutError as error:
            raise Unavailable(f"the broker at {address} did not answer in time; check host and port") from error
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"cannot reach a broker at {address}: {error}; check that it runs") from error
        try:
            welcome = await transport.ask(hello, deadline)
            if not isinstance(welcome, wire.Welcome):
                raise InternalError(f"the broker answered hello with {type(welcome).__name__}")
        except BaseException as error:
            transport.close()
            if isinstance(error, RequestTimeout):
                raise Lost(f"the broker at {address} did not answer hello in time") from error
            raise
        return transport, welcome

    def ask(self, request: Request, deadline: float) -> asyncio.Future[Answer]:
        """Send a request; the future gets its answer, or the error it ended in."""
        timings = self._timings
        if timings is not None and type(request) in SESSION:
            timings = None
        started = 0 if timings is None else time.perf_counter_ns()
        data = self.connection.request(request, deadline)
        future = self._futures[request.id] = self._loop.create_future()
        self._writer.write(data)
        if timings is not None:
            timings[request.id] = LinkTiming(started, time.perf_counter_ns(), len(data) - HEADER_BYTES)
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        return future

    async def wait_for_room(self, request: Request, deadline: float) -> None:
        """Wait until the broker reads, and has answered enough to accept a request; first come, first served.

        The request must be sent before anything else happens. It may be that the connection has ended instead.
        """
        self._senders_waiting += 1
        self.congested = True
        try:
            async with asyncio.timeout_at(deadline), self._send_lock:
                while self.connection.is_open and not (self._is_writable and self.connection.has_room(request)):
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError as error:
            raise RequestTimeout(
                "the broker did not answer earlier requests in time; nothing has happened", outcome="not done"
            ) from error
        finally:
            self._senders_waiting -= 1
            self._note_congestion()

    def _note_congestion(self) -> None:
        self.congested = self._senders_waiting > 0 or not self._is_writable

    def close(self) -> None:
        """Hang up."""
        self._carry_out(self.connection.hang_up())

    async def wait_closed(self, deadline: float) -> None:
        """Wait until the connection is closed, and abort it if that takes too long."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._closed.wait()
        except TimeoutError:
            self._writer.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the socket: small requests are sent at once, as a caller waits for each."""
        self._writer = cast(asyncio.Transport, transport)
        self._writer.set_write_buffer_limits(high=UNSENT_BYTES)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        """Complete the futures of the answers."""
        arrived = time.perf_counter_ns() if self._timings is not None else 0
        outcomes = self.connection.receive_data(data)
        if self._timings is not None:
            for request_id, _, size in outcomes:
                if size and (timing := self._timings.get(request_id)):
                    timing.arrived = arrived
                    timing.payload += size
        self._carry_out(outcomes)

    def pause_writing(self) -> None:
        """The broker reads too slowly."""
        self._is_writable = False
        self._note_congestion()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._is_writable = True
        self._note_congestion()
        self._change.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all pending requests."""
        self._closed.set()
        self._carry_out(self.connection.closed(error))

    # Carrying out outcomes

    def _carry_out(self, outcomes: list[Outcome]) -> None:
        for request_id, outcome, _ in outcomes:
            future = self._futures.pop(request_id)
            if future.done():  # its task is cancelled
                if isinstance(outcome, wire.Leases):
                    self.connection.give_back(outcome)
            elif isinstance(outcome, StafetteError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self._change.set()
        self._flush()
        if not self.connection.is_open and self.connection.state is State.CLOSED:
            self._disconnect()

    def _flush(self) -> None:
        for data in self.connection.data_to_send():
            self._writer.write(data)

    def _disconnect(self) -> None:
        self._change.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed.is_set():
            return
        if self.connection.fault is not None:
            self._writer.abort()
        else:
            self._writer.close()

    def _set_timer(self, deadline: float) -> None:
        """Use one timer for all requests, at the earliest deadline."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        self._carry_out(self.connection.expire(self._loop.time()))
        deadline = self.connection.next_deadline()
        if deadline is not None:
            self._set_timer(deadline)
