"""One broker process: a node that listens on a port until it is told to stop.

Several processes may share the port (SO_REUSEPORT): the kernel deals new connections out to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from stafette.broker.connection import Connection
from stafette.broker.limits import Limits
from stafette.broker.node import Node
from stafette.broker.upkeep import Service, serve
from stafette.broker.upkeep.debtors import DropDebtors
from stafette.broker.upkeep.delayed import PromoteDelayed
from stafette.broker.upkeep.expired import DropExpired
from stafette.broker.upkeep.heartbeat import Heartbeat
from stafette.broker.upkeep.keys import ForgetKeys
from stafette.broker.upkeep.leases import ExpireLeases
from stafette.database.store import Store
from stafette.errors import InvalidRequest, Unavailable

log = logging.getLogger(__name__)

BACKLOG = 4096
"""Connections the kernel may keep for us while we are busy: thousands of clients come back at once after a failure."""

FAREWELL_SECONDS = 5.0
"""How long clients have, after goodbye, to read their last answers and hang up."""


@dataclass(frozen=True)
class BrokerSettings:
    """How to run one broker process."""

    database: str
    host: str = "127.0.0.1"
    port: int = 7470
    limits: Limits = field(default_factory=Limits)
    unsafe_durability: bool = False
    insecure: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None

    def check(self) -> None:
        """Refuse to serve strangers without TLS, unless told to."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InvalidRequest("TLS needs both a certificate and its key; give --tls-certificate and --tls-key")
        if not self.local and self.tls_certificate is None and not self.insecure:
            raise InvalidRequest(
                f"{self.host} can be reached from other machines; give --tls-certificate and --tls-key,"
                " or accept unprotected connections with --insecure"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def tls(self) -> ssl.SSLContext | None:
        """What encrypts connections, if anything does."""
        if self.tls_certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
        except OSError as error:
            raise InvalidRequest(f"cannot use {self.tls_certificate} with {self.tls_key}: {error}") from error
        return context


SERVICES: tuple[type[Service], ...] = (Heartbeat, ExpireLeases, PromoteDelayed, DropExpired, ForgetKeys, DropDebtors)


@contextlib.asynccontextmanager
async def running(settings: BrokerSettings) -> AsyncIterator[tuple[Node, int]]:
    """A broker that serves on the port it yields, drained and signed off at the end."""
    settings.check()
    async with await Store.open(
        settings.database,
        connections=settings.limits.connections + 1,  # one for upkeep, whatever the load
        unsafe_durability=settings.unsafe_durability,
    ) as store:
        name = f"{socket.gethostname()}:{settings.port}/{os.getpid()}"
        node = Node(store, settings.limits, name=name, require_secrets=not settings.local and not settings.insecure)
        await node.join()
        server = await _listen(node, settings)
        upkeep = [asyncio.create_task(serve(service(), node)) for service in SERVICES]
        try:
            yield node, server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await node.drain()
            await _farewell(node)
            for task in upkeep:
                task.cancel()
            await asyncio.wait(upkeep)
            await node.leave()


async def _listen(node: Node, settings: BrokerSettings) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(node),
            settings.host,
            settings.port,
            reuse_port=True,
            backlog=BACKLOG,
            ssl=settings.tls(),
        )
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another --port"
        ) from error


async def _farewell(node: Node) -> None:
    """Wait until clients have read their last answers and hung up, but not for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await node.everybody_gone()


async def run_until_signal(settings: BrokerSettings, started: asyncio.Future[int] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings) as (node, port):
        log.info("broker %s serves %s:%d", node.name, settings.host, port)
        if started:
            started.set_result(port)
        await stop.wait()
        log.info("broker %s drains", node.name)
