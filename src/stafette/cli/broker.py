"""`stafette broker`: brokers in the foreground, and commands for those that run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from stafette import settings
from stafette.broker.control import ask_all
from stafette.broker.limits import Limits
from stafette.broker.process import serve
from stafette.broker.server import BrokerSettings
from stafette.broker.supervisor import Workers
from stafette.cli.db import Data, Database, database_url
from stafette.cli.output import Json, say, show_record
from stafette.errors import StafetteError

DEFAULT_LIMITS = Limits()

app = typer.Typer(invoke_without_command=True, add_completion=False)
ctl = typer.Typer(help="Commands for the brokers that run with a data folder.", no_args_is_help=True)
app.add_typer(ctl, name="ctl")


@app.callback()
def broker(
    context: typer.Context,
    data: Data = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any free port.")] = 7470,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that share the port.")] = 1,
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="To the database, per worker.")
    ] = DEFAULT_LIMITS.connections,
    max_clients: Annotated[int, typer.Option("--max-clients", min=1, help="Per worker.")] = DEFAULT_LIMITS.clients,
    max_in_flight: Annotated[
        int, typer.Option("--max-in-flight", min=1, help="Requests under way at once, per worker.")
    ] = DEFAULT_LIMITS.in_flight,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Requests in one call of the database, at most.")
    ] = DEFAULT_LIMITS.batch,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            help="Serve figures for Prometheus on 127.0.0.1; each further worker takes the next port.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What to call it; by default its host and port.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Folder for a trace of every request, as Parquet files.")
    ] = None,
    run: Annotated[str, typer.Option("--run", help="What the trace's rows say they belong to.")] = "",
    clock_ahead: Annotated[
        int, typer.Option("--clock-ahead", help="Nanoseconds to take off the trace's times: this clock is ahead.")
    ] = 0,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without TLS and secrets.")] = False,
    unsafe_durability: Annotated[
        bool, typer.Option("--unsafe-durability", help="Accept a database that may lose what it confirmed.")
    ] = False,
) -> None:
    """Run a broker in the foreground and print its URL; SIGTERM or Ctrl-C drains it.

    Example: stafette broker --database postgresql://me@db.example/app --workers 4
    """
    if context.invoked_subcommand is not None:
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("asyncpg").setLevel(logging.ERROR)  # its warnings are tracebacks of what we say in a sentence
    chosen = BrokerSettings(
        database=database_url(data, database),
        host=host,
        port=port,
        limits=Limits(connections=connections, clients=max_clients, in_flight=max_in_flight, batch=batch),
        insecure=insecure,
        unsafe_durability=unsafe_durability,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        metrics_port=metrics_port,
        trace=trace,
        run=run,
        clock_ahead_ns=clock_ahead,
        name=name,
        data=settings.load(data=data, database=database).data,
    )
    chosen.check()

    def started(port: int) -> None:
        print(chosen.url(port), flush=True)

    if workers > 1:
        raise typer.Exit(Workers(chosen, workers).run(started))
    uvloop.run(serve(chosen, started=started))


@ctl.command()
def shutdown(data: Data = None) -> None:
    """Let the brokers drain, and wait until they have ended.

    Example: stafette broker ctl shutdown
    """
    answers = _ask_all(data, "shutdown")
    say(f"{len(answers)} broker{'s have' if len(answers) > 1 else ' has'} ended")


@ctl.command()
def stacks(data: Data = None) -> None:
    """Print what every thread and task is doing, even if the event loop is stuck.

    Example: stafette broker ctl stacks
    """
    for answer in _ask_all(data, "stacks"):
        print(answer)


@ctl.command()
def memory(data: Data = None, as_json: Json = False) -> None:
    """Print how much memory is in use, and what may be holding it.

    Example: stafette broker ctl memory --json
    """
    for answer in _ask_all(data, "memory"):
        assert isinstance(answer, dict)
        show_record(answer, as_json=as_json)


@ctl.command()
def status(data: Data = None) -> None:
    """Print the figures of each broker as a line of JSON.

    Example: stafette broker ctl status
    """
    for answer in _ask_all(data, "status"):
        assert isinstance(answer, dict)
        show_record(answer, as_json=True)


def _ask_all(data: Path | None, command: str) -> list[object]:
    """The answers of all that gave one; an error of another is told, too, and is the command's when nobody answered."""
    answers = ask_all(settings.load(data=data).data, command)
    errors = [answer for answer in answers if isinstance(answer, StafetteError)]
    if len(errors) == len(answers):
        raise errors[0]
    for error in errors:
        say(f"stafette: {error}")
    return [answer for answer in answers if not isinstance(answer, StafetteError)]
