"""The socket's side of a session: bytes in, frames to the node; answers out, with a bound on what is left unread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from stafette.broker.limits import FAIR_READ, GREETING_FRAME, UNREAD_BYTES
from stafette.broker.session import Session, State
from stafette.errors import InvalidRequest, MessageTooLarge
from stafette.protocol.frames import FrameReader, FrameTooLarge
from stafette.protocol.messages import Undecodable, decode_request, failure
from stafette.protocol.sockets import keep_alive

if TYPE_CHECKING:
    from stafette.broker.node import Node


class Connection(asyncio.Protocol):
    """One TCP connection."""

    __slots__ = ("_node", "_reader", "_unread", "clogged", "session", "transport")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reader = FrameReader(GREETING_FRAME)
        self.session = Session(self, timeout=0.0)
        self.transport: asyncio.Transport | None = None
        self.clogged = False
        """Whether the client leaves so much unread that nothing more is done for it."""
        self._unread = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the socket up and start to wait for a hello."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=UNREAD_BYTES)
        keep_alive(transport)
        self._node.connected(self)

    def open_up(self, limit: int) -> None:
        """Allow the frames of a session, now that we know who it is."""
        self._reader.limit = limit

    def data_received(self, data: bytes) -> None:
        """Hand every complete request to the node."""
        session = self.session
        tracing = self._node.tracing
        arrived = tracing.now() if tracing else 0
        self._node.figures.received_bytes += len(data)
        moved = False
        try:
            for payload in self._reader.feed(data):
                moved = True
                try:
                    request = tracing.decode(session, payload, arrived) if tracing else decode_request(payload)
                    self._node.accept(session, request)
                except Undecodable as error:
                    if not error.request_id or session.state is State.NEW:
                        self._refuse(error)
                        return
                    session.answer(failure(error.request_id, error))
        except FrameTooLarge as error:
            self._refuse(MessageTooLarge(f"{error}; send less at once"))
            return
        self._node.proceed(session)
        self._node.owes(self, self._reader.partial or self.clogged, anew=moved)

    def _refuse(self, error: InvalidRequest | MessageTooLarge) -> None:
        """Say what is wrong with the stream itself, and end it."""
        self.session.answer(failure(0, error))
        self.close()

    def write(self, data: bytes) -> None:
        """Queue bytes for sending; those of one turn of the loop leave together."""
        if self.transport is not None and not self.transport.is_closing():
            self._node.figures.sent_bytes += len(data)
            self.transport.write(data)

    @property
    def unsent(self) -> int:
        """Bytes that the client has yet to read."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def pause_writing(self) -> None:
        """Take no more requests from a client that does not keep up with its answers; it owes us some reading."""
        if self.transport is not None and not self.transport.is_closing():
            self.clogged = True
            self._unread = self.transport.get_write_buffer_size()
            self.transport.pause_reading()
            self._node.owes(self, True, anew=True)

    def resume_writing(self) -> None:
        """Go on: it has caught up."""
        if self.clogged and self.transport is not None and not self.transport.is_closing():
            self.clogged = False
            self.transport.resume_reading()
            self._node.owes(self, self._reader.partial, anew=True)
            self._node.proceed(self.session)

    def keeps_up(self) -> bool:
        """Whether a clogged client has read a fair part since we last looked: a large answer takes its time."""
        if not self.clogged or self.transport is None:
            return False
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        return before - self._unread >= FAIR_READ

    def close(self) -> None:
        """Hang up after what is written has been sent; for that, too, there is only so much time."""
        if self.transport is not None and not self.transport.is_closing():
            self._node.owes(self, True, anew=True)
            self.transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Let the node free the name."""
        self._node.disconnected(self)
