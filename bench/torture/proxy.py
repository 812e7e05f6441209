"""A proxy before a broker that does what networks do: cut a connection at any byte, and hold answers back."""

from __future__ import annotations

import asyncio
import random

MOST_BYTES = 400
"""A connection is cut after fewer bytes than this: in the middle of the next few frames, or between them."""


class Proxy:
    """Forwards from a port of its own to a broker's port."""

    def __init__(self, port: int) -> None:
        self._broker_port = port
        self._server: asyncio.Server | None = None
        self.lines: set[Line] = set()
        self.holds = False
        self.something_held = asyncio.Event()
        self.port = 0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Line(self, self._broker_port), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for line in list(self.lines):
            line.abort()
        await asyncio.sleep(0)  # so that the transports are gone before the loop is

    def cut_soon(self) -> None:
        """Cut every connection, each after some bytes of its own in one of the two directions."""
        for line in self.lines:
            budget = random.randrange(MOST_BYTES)
            if random.random() < 0.5:
                line.to_broker_left = budget
            else:
                line.to_client_left = budget

    def hold(self) -> None:
        """Keep answers back until `release`."""
        self.holds = True
        self.something_held.clear()

    def release(self) -> None:
        self.holds = False
        for line in list(self.lines):
            line.release()


class Line(asyncio.Protocol):
    """A client's connection, and the one to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, port: int) -> None:
        self._proxy = proxy
        self._port = port
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._early = b""
        self._held = b""
        self._dialling: asyncio.Task[None] | None = None
        self.to_broker_left: int | None = None
        """Bytes that still pass before the connection is cut; None: all."""
        self.to_client_left: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport
        self._proxy.lines.add(self)
        self._dialling = asyncio.create_task(self._dial())

    async def _dial(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            broker, _ = await loop.create_connection(lambda: Answers(self), "127.0.0.1", self._port)
        except OSError:
            self.cut()
            return
        self._broker = broker
        if self not in self._proxy.lines:  # the client has gone meanwhile
            broker.abort()
        early, self._early = self._early, b""
        self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._broker is None:
            self._early += data
            return
        if self.to_broker_left is not None:
            passing, self.to_broker_left = data[: self.to_broker_left], self.to_broker_left - len(data)
            self._broker.write(passing)
            if self.to_broker_left <= 0:
                self.cut()
        else:
            self._broker.write(data)

    def answered(self, data: bytes) -> None:
        """The broker has sent something."""
        if self._proxy.holds:
            self._held += data
            self._proxy.something_held.set()
            return
        assert self._client is not None
        if self.to_client_left is not None:
            passing, self.to_client_left = data[: self.to_client_left], self.to_client_left - len(data)
            self._client.write(passing)
            if self.to_client_left <= 0:
                self.cut()
        else:
            self._client.write(data)

    def release(self) -> None:
        data, self._held = self._held, b""
        if data:
            self.answered(data)

    def cut(self) -> None:
        """End both connections, once what has passed is written."""
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.close()

    def abort(self) -> None:
        """End both connections at once."""
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._proxy.lines.discard(self)
        self.cut()


class Answers(asyncio.Protocol):
    """The broker's end of a line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def data_received(self, data: bytes) -> None:
        self._line.answered(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._line.cut()
