"""The web application as a process: it serves until a signal or a command tells it to stop."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from stafette.broker.control import Control
from stafette.broker.listening import bind, check_protection, port_of
from stafette.web.app import make_app
from stafette.web.site import WebSettings, opened

log = logging.getLogger(__name__)

FAREWELL_SECONDS = 3
"""How long open event streams may last after the word to stop."""


@dataclass(frozen=True)
class Address:
    """Where to serve, and how well protected."""

    host: str = "127.0.0.1"
    port: int = 7471
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False

    def url(self, port: int) -> str:
        """What to type into a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{port}"


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._say_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self._say_started()


async def serve(address: Address, settings: WebSettings, started: Callable[[str], None]) -> None:
    """Serve until told to stop; `started` learns the address."""
    check_protection(address.host, address.tls_certificate, address.tls_key, insecure=address.insecure)
    async with opened(settings):
        pass  # what is wrong with the database is said before anything listens
    sockets = bind(address.host, address.port)
    url = address.url(port_of(sockets))
    server = _Server(
        uvicorn.Config(
            make_app(settings),
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            ssl_certfile=address.tls_certificate,
            ssl_keyfile=address.tls_key,
            timeout_graceful_shutdown=FAREWELL_SECONDS,
        ),
        started=lambda: started(url),
    )

    def stop() -> None:
        server.should_exit = True

    facts = {"url": url, "pid": os.getpid()}
    control = Control(on_loop={"status": lambda: facts}, anywhere={}, stop=stop)
    with control.serving(settings.data, "web"):
        log.info("the web console is at %s", url)
        await server.serve(sockets=sockets)
