"""A proxy between a client and its broker that does what networks do: it loses, cuts, holds and swallows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit


class Proxy:
    """Forwards in both directions, unless told otherwise."""

    def __init__(self, broker: str) -> None:
        parts = urlsplit(broker)
        assert parts.hostname
        assert parts.port
        self._broker = (parts.hostname, parts.port)
        self._server: asyncio.Server | None = None
        self._lines: set[_Line] = set()
        self.held: list[tuple[_Line, bytes]] = []
        self._faults: deque[Callable[[_Line, bytes], None]] = deque()
        self._swallows = False
        self._holds = False
        self.something_held = asyncio.Event()
        self.connections = 0
        """How many have been made so far."""
        self.address = ""

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Line(self), "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await asyncio.sleep(0)  # so that the transports are gone before the loop is

    @property
    def url(self) -> str:
        return f"stafette://{self.address}"

    def lose_next_answer(self, *, broker_knows: bool = True) -> None:
        """Cut the client off, and as a rule the broker, instead of forwarding what comes next from there."""
        self._faults.append(lambda line, _: line.cut() if broker_knows else line.cut_client_only())

    def halve_next_answer(self) -> None:
        """Cut both connections in the middle of what comes next from the broker."""

        def halve(line: _Line, data: bytes) -> None:
            line.to_client(data[: len(data) // 2])
            line.cut(politely=True)

        self._faults.append(halve)

    def drop_next_answer(self) -> None:
        """Drop what comes next from the broker, and keep the connections."""
        self._faults.append(lambda _line, _data: self.something_held.set())

    def swallow_answers(self) -> None:
        """Let nothing through from the broker any more, and keep the connections."""
        self._swallows = True

    def let_through(self) -> None:
        """Swallow nothing more; what has been swallowed is gone."""
        self._swallows = False

    def hold_answers(self) -> None:
        """Keep what comes from the broker back until `release_answers`."""
        self._holds = True
        self.something_held.clear()

    def release_answers(self) -> None:
        self._holds = False
        held, self.held = self.held, []
        for line, data in held:
            line.to_client(data)

    def stop_reading(self) -> None:
        """Leave unread what clients send."""
        for line in self._lines:
            line.client.pause_reading()

    def read_on(self) -> None:
        for line in self._lines:
            line.client.resume_reading()

    def cut(self) -> None:
        """Cut all connections."""
        for line in list(self._lines):
            line.cut()

    def cut_clients_only(self) -> None:
        """Cut the clients off; the broker notices nothing."""
        for line in list(self._lines):
            line.cut_client_only()

    def stop(self) -> None:
        """Be gone like a broker that has been killed."""
        if self._server is not None:
            self._server.close()
        self.cut()

    # What lines call

    @property
    def broker(self) -> tuple[str, int]:
        return self._broker

    def made(self, line: _Line) -> None:
        self.connections += 1
        self._lines.add(line)

    def answered(self, line: _Line, data: bytes) -> None:
        if self._faults:
            self._faults.popleft()(line, data)
        elif self._holds:
            self.held.append((line, data))
            self.something_held.set()
        elif not self._swallows:
            line.to_client(data)


class _Line(asyncio.Protocol):
    """One client's connection, and the one to the broker that belongs to it."""

    client: asyncio.Transport

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._broker: asyncio.Transport | None = None
        self._early = b""
        self._dialling: asyncio.Task[None] | None = None
        self.keeps_broker = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.client = transport
        self._proxy.made(self)
        self._dialling = asyncio.ensure_future(self._dial())

    async def _dial(self) -> None:
        host, port = self._proxy.broker
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: _Answers(self), host, port)
        self._broker = transport
        transport.write(self._early)

    def data_received(self, data: bytes) -> None:
        if self._broker is None:
            self._early += data
        else:
            self._broker.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._broker is not None and not self.keeps_broker:
            self._broker.close()

    def answered(self, data: bytes) -> None:
        self._proxy.answered(self, data)

    def to_client(self, data: bytes) -> None:
        self.client.write(data)

    def cut_client_only(self) -> None:
        self.keeps_broker = True
        self.client.abort()

    def cut(self, *, politely: bool = False) -> None:
        if self._broker is not None:
            self._broker.abort()
        if politely:
            self.client.close()
        else:
            self.client.abort()


class _Answers(asyncio.Protocol):
    """The broker's end of a line."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def data_received(self, data: bytes) -> None:
        self._line.answered(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._line.client.close()
