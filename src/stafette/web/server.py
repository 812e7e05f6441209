"""The process of the web application: it serves until a signal or a command stops it."""

from __future__ import annotations

import functools
import logging
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from stafette.broker.control import Control
from stafette.broker.listening import bind, check_protection, port_of, tls_context
from stafette.web.app import make_app
from stafette.web.connections import HttpConnection, Listener
from stafette.web.site import WebSettings, open_site

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 3
"""How long open event streams may last after the request to stop."""


@dataclass(frozen=True)
class Address:
    """Where to listen, and whether with TLS."""

    host: str = "127.0.0.1"
    port: int = 7471
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False

    def check(self) -> None:
        """Raises InvalidRequest if TLS is misconfigured, or is missing although other machines can connect."""
        check_protection(self.host, self.tls_certificate, self.tls_key, insecure=self.insecure)
        self.tls()

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context; None without a certificate."""
        return None if self.tls_certificate is None else tls_context(self.tls_certificate, self.tls_key)

    def url(self, port: int) -> str:
        """The URL for a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{port}"


class _Server(uvicorn.Server):
    """Accepts connections through our own listener, and calls back once it does."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets=[])
        make_http = functools.partial(
            HttpConnection, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        listener = Listener(sockets or [], make_http, self.config.ssl)
        self.servers = [listener]  # type: ignore[list-item]  # it is closed like one
        listener.start()
        self._on_started()


async def serve(
    address: Address,
    settings: WebSettings,
    on_started: Callable[[str], None],
    *,
    before_listening: Callable[[], None] = lambda: None,
) -> None:
    """Serve until stopped; calls `before_listening` when the port is bound and the key is read, `on_started` with the
    URL."""
    address.check()
    async with open_site(settings):
        pass  # problems with the database show before anything listens
    sockets = bind(address.host, address.port)
    tls = address.tls()
    before_listening()
    url = address.url(port_of(sockets))
    server = _Server(
        uvicorn.Config(
            make_app(settings),
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            http=HttpConnection,
            ws="none",
            proxy_headers=False,  # ours are named by the operator
            ssl_context_factory=None if tls is None else lambda *_: tls,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ),
        on_started=lambda: on_started(url),
    )

    def stop() -> None:
        server.should_exit = True

    status = {"url": url, "pid": os.getpid()}
    control = Control(on_loop={"status": lambda: status}, anywhere={}, stop=stop)
    with control.serving(settings.data, "web"):
        log.info("the web console is at %s", url)
        await server.serve(sockets=sockets)
