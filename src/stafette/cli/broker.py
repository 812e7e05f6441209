"""`stafette broker`: one broker node in the foreground."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from stafette.broker.limits import Limits
from stafette.broker.server import BrokerSettings, run_until_signal
from stafette.cli.db import Data, Database, database_url

DEFAULT_LIMITS = Limits()


def broker(
    data: Data = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 7470,
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="To the database.")
    ] = DEFAULT_LIMITS.connections,
    max_clients: Annotated[int, typer.Option("--max-clients", min=1)] = DEFAULT_LIMITS.clients,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without TLS and secrets.")] = False,
    unsafe_durability: Annotated[
        bool, typer.Option("--unsafe-durability", help="Accept a database that may lose what it confirmed.")
    ] = False,
) -> None:
    """Run one broker in the foreground; SIGTERM or Ctrl-C drains it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = BrokerSettings(
        database=database_url(data, database),
        host=host,
        port=port,
        limits=Limits(connections=connections, clients=max_clients),
        insecure=insecure,
        unsafe_durability=unsafe_durability,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
    )
    settings.check()
    uvloop.run(run_until_signal(settings))
