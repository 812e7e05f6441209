"""Connections to the console: how many there may be, who gives way, and how long a request may take to arrive.

uvicorn lets a header take as long as it likes and closes nobody when there are too many. It accepts through asyncio,
which gives a TLS handshake a minute and writes thousands of lines when file descriptors run out. So sockets are
accepted here and given to uvicorn's protocol, which does the rest.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 2_500
"""Connections at a time; beyond, the oldest gives way that has not logged in. A stranger's takes some 50 KiB."""
MOST_TLS_CONNECTIONS = 500
"""The same with TLS, where each takes 256 KiB: asyncio allocates that much before the handshake."""
FILES_PER_CONNECTION = 2
"""Its socket, and a file that it reads."""
OTHER_FILES = 100
"""Descriptors for all else: the database, logs, the laboratory."""
BACKLOG = 512
"""Connections that the kernel keeps while we are busy."""
ACCEPTED_AT_ONCE = 4
"""Connections that are accepted before requests are looked at again."""
FULL_PAUSE = 0.01
"""Seconds until we accept again when somebody had to give way: those who come again at once would take all our time."""
NO_FILES_PAUSE = 1.0
"""Seconds until we accept again after the system had no more descriptors."""

HANDSHAKE_SECONDS = 5.0
"""How long a TLS handshake may take."""
TLS_END_SECONDS = 5.0
"""How long a browser may take to end TLS."""
REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, header and body …"""
BYTES_PER_SECOND = 16 * 1024
"""… and one second more for so many bytes."""
READ_SECONDS = 30.0
"""How long a client may read nothing of an answer that waits for it."""
LINGER_SECONDS = 2.0
"""How long we wait for a client to read that its request was refused before it was all there."""
LINGER_BYTES = 256 * 1024
"""What we read and forget of such a request: a client that is still writing cannot read yet."""


def arrival_deadline(begun: float, received: int) -> float:
    """When a request must be there that began to arrive then, and of which so many bytes are there."""
    return begun + REQUEST_SECONDS + received / BYTES_PER_SECOND


class ConnectionLimit:
    """Who is connected. If there are too many, the oldest who has not logged in gives way, and never the newcomer."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._strangers: dict[Connection, None] = {}
        self._operators: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._operators)

    @property
    def is_full(self) -> bool:
        """Whether the next one makes somebody give way."""
        return len(self) >= self._most

    def add(self, connection: Connection) -> bool:
        """Count a connection in; False if there is no room because all are operators'."""
        if self.is_full and not self._make_room():
            return False
        self._strangers[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """Make room, when a connection is closed."""
        self._strangers.pop(connection, None)
        self._operators.discard(connection)

    def _make_room(self) -> bool:
        while self._strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            if not oldest.is_operators:
                oldest.hang_up()
                return True
            self._operators.add(oldest)
        return False


class Connection:
    """A connection from its acceptance on: first perhaps a TLS handshake, then HTTP."""

    def __init__(self) -> None:
        self.http: HttpConnection | None = None
        self.opening: asyncio.Task[None] | None = None

    @property
    def is_operators(self) -> bool:
        """Whether a request that came through it was an operator's."""
        return self.http is not None and self.http.is_operators

    def close_unopened(self, accepted: socket.socket) -> None:
        """Close the socket of a connection that did not get as far as HTTP."""
        if self.http is None:
            accepted.close()

    def hang_up(self) -> None:
        """Close it at once."""
        if self.http is not None:
            self.http.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class HttpConnection(H11Protocol):
    """uvicorn's protocol, with time limits, and without what is left of a request that was refused."""

    def __init__(self, *, on_close: Callable[[], None], **options: Any) -> None:
        super().__init__(**options)
        self._on_close = on_close
        self._was_operators = False
        self._begun = 0.0
        """When the request began to arrive that we wait for."""
        self._received = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    @property
    def is_operators(self) -> bool:
        """Whether a request, the present one included, was an operator's."""
        return self._was_operators or (self.scope is not None and "operator" in self.scope["state"])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free what is held."""
        self._stop_timer()
        self._stop_unread_timer()
        self._on_close()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client some time to read of its answer."""
        super().pause_writing()
        self._stop_unread_timer()
        self._unread_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        self._stop_unread_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; of one that is answered already, a little is read and forgotten."""
        self._received += len(data)
        if self._is_refused and self._received > LINGER_BYTES:
            self.flow.pause_reading()
        elif not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request, or until a client has read why we do not want the rest of this one."""
        self._was_operators = self.is_operators
        self.cycle.body = bytearray()
        self._await_request()
        super().on_response_complete()

    @property
    def _is_arriving(self) -> bool:
        """Whether it is the client's turn to send."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def _is_refused(self) -> bool:
        """Whether the request has its answer although it is not all there."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state in (h11.DONE, h11.MUST_CLOSE)

    def _await_request(self) -> None:
        self._stop_timer()
        self._begun, self._received = self.loop.time(), 0
        self._timer = self.loop.call_at(self._deadline, self._check_deadline)

    @property
    def _deadline(self) -> float:
        return self._begun + LINGER_SECONDS if self._is_refused else arrival_deadline(self._begun, self._received)

    def _check_deadline(self) -> None:
        self._timer = None
        if not self._is_arriving:
            return  # the answer takes its time; the next request is awaited after it
        if self.flow.read_paused and not self._is_refused:  # it is we who do not read
            self._begun = self.loop.time()
        if self.loop.time() >= self._deadline:
            log.debug("a request from %s took too long to arrive", self.client)
            self.transport.abort()
        else:
            self._timer = self.loop.call_at(self._deadline, self._check_deadline)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None


class Listener:
    """Accepts connections on bound sockets, and closes those that must give way."""

    def __init__(
        self, sockets: Sequence[socket.socket], make_http: Callable[..., HttpConnection], tls: ssl.SSLContext | None
    ) -> None:
        self._sockets = sockets
        self._make_http = make_http
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._limit = ConnectionLimit(
            min(allow_descriptors(), MOST_CONNECTIONS if tls is None else MOST_TLS_CONNECTIONS)
        )
        self._pauses: set[asyncio.TimerHandle] = set()

    def start(self) -> None:
        """Begin to accept."""
        for listener in self._sockets:
            listener.setblocking(False)
            listener.listen(BACKLOG)
            self._loop.add_reader(listener, self._accept, listener)

    def close(self) -> None:
        """Accept no more; who is connected stays."""
        for listener in self._sockets:
            self._loop.remove_reader(listener)
        for pause in self._pauses:
            pause.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # it has gone already
                continue
            except OSError as error:
                log.warning("cannot accept connections: %s; raise the limit on open files", error.strerror)
                self._pause(listener, NO_FILES_PAUSE)
                return
            self._serve(accepted)
        if self._limit.is_full:
            self._pause(listener, FULL_PAUSE)

    def _pause(self, listener: socket.socket, seconds: float) -> None:
        """Leave connections to the kernel for some time."""

        def resume() -> None:
            self._pauses.discard(handle)
            self._loop.add_reader(listener, self._accept, listener)

        self._loop.remove_reader(listener)
        handle = self._loop.call_later(seconds, resume)
        self._pauses.add(handle)

    def _serve(self, accepted: socket.socket) -> None:
        connection = Connection()
        if not self._limit.add(connection):
            log.warning("all %d connections are operators'; a further one is refused", len(self._limit))
            accepted.close()
            return
        accepted.setblocking(False)
        connection.opening = self._loop.create_task(self._open(connection, accepted))
        connection.opening.add_done_callback(lambda _: connection.close_unopened(accepted))

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        """Finish the handshake and hand the connection over to HTTP; of one that gave way nothing is left."""
        http = self._make_http(on_close=lambda: self._limit.remove(connection))
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": TLS_END_SECONDS}
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or the body waits 40 ms behind its header
            await self._loop.connect_accepted_socket(
                lambda: http, accepted, ssl=self._tls, **(limits if self._tls else {})
            )
            connection.http = http
        except OSError as error:
            log.debug("a connection was not opened: %s", error)
            self._limit.remove(connection)


def allow_descriptors() -> int:
    """The number of connections that this process may have, after it has raised its own limit as far as useful."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS * FILES_PER_CONNECTION + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = wanted if soft == resource.RLIM_INFINITY else soft
    return max((allowed - OTHER_FILES) // FILES_PER_CONNECTION, 1)
