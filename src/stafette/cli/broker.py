"""`stafette broker`: runs brokers in the foreground, and sends commands to running ones."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from stafette import settings
from stafette.broker.control import ask_all
from stafette.broker.limits import Limits
from stafette.broker.listening import bind
from stafette.broker.process import serve
from stafette.broker.server import BrokerSettings
from stafette.broker.supervisor import Workers
from stafette.cli import privileges
from stafette.cli.db import Data, Database, database_url
from stafette.cli.output import Json, say, show_record
from stafette.errors import InvalidRequest, StafetteError

DEFAULT_LIMITS = Limits()
FIRST_FREE_PORT = 1024
"""Those below are for root alone."""

log = logging.getLogger(__name__)

app = typer.Typer(invoke_without_command=True, add_completion=False)
ctl = typer.Typer(help="Commands for the running brokers of a data folder.", no_args_is_help=True)
app.add_typer(ctl, name="ctl")


@app.callback()
def broker(
    context: typer.Context,
    data: Data = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes any free port.")
    ] = 7470,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that share the port.")] = 1,
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="Database connections per worker.")
    ] = DEFAULT_LIMITS.connections,
    max_clients: Annotated[
        int, typer.Option("--max-clients", min=1, help="Maximum number of clients per worker.")
    ] = DEFAULT_LIMITS.clients,
    max_in_flight: Annotated[
        int, typer.Option("--max-in-flight", min=1, help="Maximum number of requests in flight per worker.")
    ] = DEFAULT_LIMITS.in_flight,
    max_in_flight_bytes: Annotated[
        int, typer.Option("--max-in-flight-bytes", min=1, help="Maximum bytes of requests in flight per worker.")
    ] = DEFAULT_LIMITS.in_flight_bytes,
    max_client_bytes: Annotated[
        int, typer.Option("--max-client-bytes", min=1, help="Maximum bytes of requests in flight per client.")
    ] = DEFAULT_LIMITS.in_flight_bytes_per_client,
    max_unread_bytes: Annotated[
        int, typer.Option("--max-unread-bytes", min=1, help="Maximum bytes of unread answers per worker.")
    ] = DEFAULT_LIMITS.unsent,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Maximum number of requests in one database call.")
    ] = DEFAULT_LIMITS.batch,
    key_hours: Annotated[
        float | None,
        typer.Option("--key-hours", help="How many hours the keys of sends count; default: the database's, or 24."),
    ] = None,
    batch_bytes: Annotated[
        int, typer.Option("--batch-bytes", min=1, help="Maximum bytes of requests in one database call.")
    ] = DEFAULT_LIMITS.batch_bytes,
    answer_bytes: Annotated[
        int, typer.Option("--answer-bytes", min=1, help="Maximum bytes of messages that one database call hands out.")
    ] = DEFAULT_LIMITS.answer,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            help="Serve metrics for Prometheus on 127.0.0.1; each further worker takes the next port.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the broker; default: its host and port.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Folder for a trace of every request, as Parquet files.")
    ] = None,
    run: Annotated[str, typer.Option("--run", help="Id of the run, written into each row of the trace.")] = "",
    clock_ahead: Annotated[
        int, typer.Option("--clock-ahead", help="Nanoseconds by which this clock is ahead; subtracted in the trace.")
    ] = 0,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate", help="Certificate file, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Key file of the certificate, PEM.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without TLS and secrets.")] = False,
    unsafe_durability: Annotated[
        bool, typer.Option("--unsafe-durability", help="Accept a database that can lose confirmed messages.")
    ] = False,
) -> None:
    """Run a broker in the foreground and print its URL; SIGTERM or Ctrl-C drains it.

    Example: stafette broker --database postgresql://me@db.example/app --workers 4
    """
    if context.invoked_subcommand is not None:
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("asyncpg").setLevel(logging.ERROR)  # its warnings are tracebacks of errors that we log anyway
    current = settings.load(data=data, database=database, key_hours=key_hours)
    broker_settings = BrokerSettings(
        database=database_url(data, database),
        host=host,
        port=port,
        limits=Limits(
            connections=connections,
            clients=max_clients,
            in_flight=max_in_flight,
            in_flight_bytes=max_in_flight_bytes,
            in_flight_bytes_per_client=max_client_bytes,
            unsent=max_unread_bytes,
            batch=batch,
            batch_bytes=batch_bytes,
            answer=answer_bytes,
        ),
        insecure=insecure,
        unsafe_durability=unsafe_durability,
        key_hours=current.key_hours,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        metrics_port=metrics_port,
        trace=trace,
        run=run,
        clock_ahead_ns=clock_ahead,
        name=name,
        data=current.data,
    )
    broker_settings.check()
    if workers > 1 and os.geteuid() == 0 and 0 < port < FIRST_FREE_PORT:
        raise InvalidRequest(
            f"several workers cannot share port {port} as an unprivileged user; use --workers 1, or a port from"
            f" {FIRST_FREE_PORT} on"
        )
    listening = bind(host, port) if workers == 1 else None
    identity = privileges.drop(current.data, *([trace] if trace else []))

    def print_url(port: int) -> None:
        if identity.message:
            log.info(identity.message)
        print(broker_settings.url(port), flush=True)

    if workers > 1:
        raise typer.Exit(Workers(broker_settings, workers).run(print_url))
    uvloop.run(serve(broker_settings, listening=listening, started=print_url))


@ctl.command()
def shutdown(data: Data = None) -> None:
    """Drain the brokers, and wait until they have ended.

    Example: stafette broker ctl shutdown
    """
    answers = _ask_all(data, "shutdown")
    say(f"{len(answers)} broker{'s have' if len(answers) > 1 else ' has'} ended")


@ctl.command()
def stacks(data: Data = None) -> None:
    """Print the stack of every thread and task, even if the event loop is stuck.

    Example: stafette broker ctl stacks
    """
    for answer in _ask_all(data, "stacks"):
        print(answer)


@ctl.command()
def memory(data: Data = None, as_json: Json = False) -> None:
    """Print how much memory is in use, and which objects may hold it.

    Example: stafette broker ctl memory --json
    """
    for answer in _ask_all(data, "memory"):
        assert isinstance(answer, dict)
        show_record(answer, as_json=as_json)


@ctl.command()
def status(data: Data = None) -> None:
    """Print the metrics of each broker as a line of JSON.

    Example: stafette broker ctl status
    """
    for answer in _ask_all(data, "status"):
        assert isinstance(answer, dict)
        show_record(answer, as_json=True)


def _ask_all(data: Path | None, command: str) -> list[object]:
    """The answers of all brokers, with errors printed; raises the first error if no broker answered."""
    answers = ask_all(settings.load(data=data).data, command)
    errors = [answer for answer in answers if isinstance(answer, StafetteError)]
    if len(errors) == len(answers):
        raise errors[0]
    for error in errors:
        say(f"stafette: {error}")
    return [answer for answer in answers if not isinstance(answer, StafetteError)]
