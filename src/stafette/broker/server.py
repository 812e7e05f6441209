"""One broker: a runtime that listens on a port until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stafette.broker.limits import HANDSHAKE_SECONDS, Limits
from stafette.broker.listening import bind, check_protection, is_local, tls_context
from stafette.broker.maintenance import Service, serve
from stafette.broker.maintenance.delayed import PromoteDelayed
from stafette.broker.maintenance.discarded import DeleteDiscarded
from stafette.broker.maintenance.expired import DropExpired
from stafette.broker.maintenance.heartbeat import Heartbeat
from stafette.broker.maintenance.history import WriteHistory
from stafette.broker.maintenance.idle_connections import DropIdleConnections
from stafette.broker.maintenance.keys import ForgetKeys
from stafette.broker.maintenance.leases import ExpireLeases
from stafette.broker.maintenance.message_counts import CountMessages
from stafette.broker.maintenance.received import ForgetReceived
from stafette.broker.maintenance.sessions import ForgetSessions
from stafette.broker.native import NativeConnection
from stafette.broker.runtime import Runtime
from stafette.broker.tracing import open_tracing
from stafette.database.store import Store
from stafette.errors import StafetteError

BACKLOG = 4096
"""Connections that the kernel keeps while the broker is busy: after a failure thousands of clients reconnect."""

FAREWELL_SECONDS = 5.0
"""How long clients have, after goodbye, to read their last answers and hang up."""


@dataclass(frozen=True)
class BrokerSettings:
    """How to run a broker."""

    database: str
    host: str = "127.0.0.1"
    port: int = 7470
    limits: Limits = field(default_factory=Limits)
    unsafe_durability: bool = False
    key_hours: float | None = None
    """How long the keys of sends count; None: what the database says, or 24."""
    insecure: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    metrics_port: int | None = None
    """Port for Prometheus metrics of the first worker, the others count up; 0 for any free port."""
    data: Path | None = None
    """The data folder, where `stafette broker ctl` finds this broker's socket."""
    trace: Path | None = None
    """The folder for the trace of all requests; without it, none is written."""
    run: str = ""
    """The id of the run, for the rows of the trace."""
    clock_ahead_ns: int = 0
    """How far this machine's clock is ahead of the reference clock of the trace."""
    name: str | None = None
    """The broker's name; by default host, port and process id."""

    def check(self) -> None:
        """Raises InvalidRequest if TLS is misconfigured, or is missing although other machines can connect."""
        check_protection(self.host, self.tls_certificate, self.tls_key, insecure=self.insecure)
        self.tls()

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return is_local(self.host)

    @property
    def require_secrets(self) -> bool:
        """Whether every client needs a secret: if other machines can connect."""
        return not self.local and not self.insecure

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context; None without a certificate."""
        if self.tls_certificate is None:
            return None
        return tls_context(self.tls_certificate, self.tls_key)

    def url(self, port: int) -> str:
        """The URL for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"stafette{'s' if self.tls_certificate else ''}://{host}:{port}"


SERVICES: tuple[type[Service], ...] = (
    ExpireLeases, PromoteDelayed, DropExpired, DeleteDiscarded, ForgetKeys, ForgetReceived, ForgetSessions,
    DropIdleConnections,
    CountMessages,
)  # fmt: skip
"""Those that need nothing but the runtime."""


@contextlib.asynccontextmanager
async def running(
    settings: BrokerSettings, listening: Sequence[socket.socket] | None = None
) -> AsyncIterator[tuple[Runtime, int]]:
    """A broker that serves on the port it yields; at the end it is drained and leaves the list of brokers.

    It listens on the bound sockets in `listening`, else on those of the settings.
    """
    settings.check()
    sockets = bind(settings.host, settings.port) if listening is None else listening
    with contextlib.ExitStack() as bound:
        for listener in sockets:
            bound.enter_context(listener)
        port = int(sockets[0].getsockname()[1])
        async with (
            await Store.open(
                settings.database,
                connections=settings.limits.connections + 2,  # two for maintenance, as one may be counting for long
                unsafe_durability=settings.unsafe_durability,
                key_hours=settings.key_hours,
            ) as store,
            await Store.open(
                settings.database, connections=1, unsafe_durability=settings.unsafe_durability
            ) as heartbeat_store,
        ):
            name = settings.name or f"{socket.gethostname()}:{port}/{os.getpid()}"
            tracing = bound.enter_context(
                open_tracing(settings.trace, run=settings.run, node=name, ahead_ns=settings.clock_ahead_ns)
            )
            runtime = Runtime(
                store, settings.limits, name=name, require_secrets=settings.require_secrets, tracing=tracing
            )
            runtime.url = settings.url(port)
            await runtime.join()
            servers = [await _listen(runtime, listener, settings.tls()) for listener in sockets]
            history = WriteHistory()
            heartbeat = Heartbeat(heartbeat_store.brokers)
            services: list[Service] = [heartbeat, history, *(service() for service in SERVICES)]
            maintenance = [asyncio.create_task(serve(service, runtime)) for service in services]
            try:
                yield runtime, port
            finally:
                for server in servers:
                    server.close()
                await runtime.drain()
                await _farewell(runtime)
                for task in maintenance:
                    task.cancel()
                await asyncio.wait(maintenance)
                with contextlib.suppress(StafetteError):
                    await history.round(runtime)  # what was done since the last round
                await runtime.leave()


async def _listen(runtime: Runtime, listener: socket.socket, tls: ssl.SSLContext | None) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    return await loop.create_server(
        lambda: NativeConnection(runtime), sock=listener, backlog=BACKLOG, ssl=tls,
        ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
    )  # fmt: skip


async def _farewell(runtime: Runtime) -> None:
    """Wait until clients have read their last answers and hung up, for FAREWELL_SECONDS at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await runtime.wait_until_disconnected()
