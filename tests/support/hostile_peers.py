"""A broker in this process, clients of raw bytes, and one that behaves among them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from stafette.broker.native import NativeConnection
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.protocol import messages as wire
from tests.support.protocol_client import ProtocolClient, request
from tests.support.protocol_structs import kind_of
from tests.support.waiting import TIMEOUT_SECONDS, until


class Peer(ProtocolClient):
    """A client of raw bytes to a broker in this process."""

    runtime: Runtime

    @property
    def connections(self) -> list[NativeConnection]:
        """The broker's end, if it has come to that."""
        connections = [session.connection for session in self.runtime.core.connected]
        return [
            connection
            for connection in connections
            if isinstance(connection, NativeConnection)
            and connection.transport
            and connection.transport.get_extra_info("peername") == self.address
        ]

    @property
    def connection(self) -> NativeConnection:
        """The broker's end."""
        [connection] = self.connections
        return connection


class Broker:
    """A broker with one client that behaves."""

    def __init__(self, runtime: Runtime, url: str, healthy: Client) -> None:
        self.runtime = runtime
        self.healthy = healthy
        self._url = url
        self._peers: list[Peer] = []

    async def peer(self, *, limit: int = 2**20, buffer: int | None = None, seen: bool = True) -> Peer:
        """Connect; with a small limit and buffer, one that leaves answers where they are."""
        peer = await Peer.connect(self._url, limit=limit, buffer=buffer)
        peer.runtime = self.runtime
        self._peers.append(peer)
        if seen:
            await self.until(lambda: bool(peer.connections))
        return peer

    async def open(self, name: str, **options: Any) -> Peer:
        peer = await self.peer()
        await peer.hello(name, **options)
        return peer

    async def serves(self) -> None:
        """See that others are served."""
        await self.healthy.send("healthy", b"how are you")
        message = await self.healthy.receive("healthy")
        assert message is not None
        assert message.text == "how are you"

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the broker work until something holds, with a healthy client among the others."""
        await until(condition, self.healthy.ping)

    async def everybody_gone(self) -> None:
        """See that nothing is left of those who came."""
        for peer in self._peers:
            await peer.close()
        await self.healthy.close()
        runtime, core = self.runtime, self.runtime.core
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await runtime.wait_until_disconnected()
            while tasks := runtime._tasks | runtime._calls:
                await asyncio.wait(tasks)
        assert (core.sessions, core.idle_timeouts._deadlines, core.admission.active, len(core.waiting)) == (
            {},
            {},
            0,
            0,
        )
        assert core.dispatcher.outstanding == 0
        assert await runtime.store.brokers.sessions(runtime.broker_id) == {}


def hello(name: object, version: object = wire.VERSION, **options: object) -> bytes:
    return request(kind_of(wire.Hello), 1, version, name, *options.values())


def codes(answers: Iterable[wire.Answer]) -> list[tuple[int, int]]:
    """The id and code of every error."""
    return [(answer.id, answer.code) for answer in answers if isinstance(answer, wire.Failed)]
