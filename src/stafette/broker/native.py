"""A connection of the native protocol: bytes in, requests to the core; answers out, with a limit on unread bytes."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, cast

from stafette.broker.core.session import Session, State
from stafette.broker.limits import HELLO_FRAME, UNREAD_BYTES
from stafette.errors import MessageTooLarge
from stafette.protocol.frames import FrameReader, FrameTooLarge, frame
from stafette.protocol.messages import Answer, Goodbye, Request, Undecodable, decode_request, encode
from stafette.protocol.sockets import keep_alive

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime


class NativeConnection(asyncio.Protocol):
    """One TCP connection."""

    __slots__ = ("_reader", "_runtime", "session", "transport")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reader = FrameReader(HELLO_FRAME)
        self.session = Session(self)
        self.transport: asyncio.Transport | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the socket and wait for a hello."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=UNREAD_BYTES)
        keep_alive(transport)
        self._runtime.connected(self.session)

    def data_received(self, data: bytes) -> None:
        """Hand every complete request to the core."""
        runtime, session = self._runtime, self.session
        core, tracing = runtime.core, runtime.tracing
        arrived = tracing.now() if tracing else 0
        now = monotonic()
        core.metrics.received_bytes += len(data)
        complete_frame = False
        try:
            frames = self._reader.feed(data)
            for payload in frames:
                complete_frame = True
                try:
                    request = tracing.decode(session, payload, arrived) if tracing else decode_request(payload)
                except Undecodable as error:
                    if not core.fault(session, error, now):
                        break
                else:
                    core.request(session, request, now)
                    if session.state is State.AUTHENTICATING:  # the rest has to wait for the welcome
                        frames.close()
                        core.received(session, now, begun=0, complete_frame=True)
                        break
            else:
                core.received(session, now, begun=self._reader.begun, complete_frame=complete_frame)
        except FrameTooLarge as error:
            core.end_stream(session, MessageTooLarge(f"{error}; send less at once"), now)
        runtime.flush()

    def pause_writing(self) -> None:
        """The client does not keep up with its answers."""
        if self._open_transport():
            self._runtime.core.pause_writing(self.session, self.unsent, monotonic())
            self._runtime.flush()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self.session.write_paused and self._open_transport():
            self._runtime.core.resume_writing(self.session, monotonic(), partial=self._reader.partial)
            self._runtime.flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """The client has gone."""
        self._runtime.connection_lost(self.session)

    # What the core wants done

    @property
    def unsent(self) -> int:
        """Bytes that the client has yet to read."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def open(self) -> None:
        """Allow the frames of a session, now that the client is authenticated; first come those behind the hello."""
        self._reader.limit = self._runtime.core.limits.frame
        asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._open_transport():
            self.data_received(b"")
            if not self.session.write_paused:
                self.resume_reading()

    def reply(self, request: Request | None, answer: Answer) -> None:
        """Send an answer, and trace its request."""
        tracing = self._runtime.tracing
        if tracing is None or request is None:
            self.write(frame(encode(answer)))
        else:
            tracing.reply(self.session, request, answer, self.write)

    def say_goodbye(self, reason: str) -> None:
        """Ask the client to leave."""
        self.write(frame(encode(Goodbye(0, reason))))

    def write(self, data: bytes) -> None:
        """Queue bytes for sending, if the connection is still open."""
        if transport := self._open_transport():
            self._runtime.core.metrics.sent_bytes += len(data)
            transport.write(data)

    def pause_reading(self) -> None:
        """Take no more bytes from the client."""
        if transport := self._open_transport():
            transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes from the client again."""
        if transport := self._open_transport():
            transport.resume_reading()

    def close(self) -> None:
        """Hang up after what is written has been sent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        if self.transport is not None:
            self.transport.abort()

    def _open_transport(self) -> asyncio.Transport | None:
        return None if self.transport is None or self.transport.is_closing() else self.transport
