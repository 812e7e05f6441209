"""The root of the command: all subcommands, in the order in which a person meets them."""

from __future__ import annotations

from typing import Annotated

import typer

import stafette
from stafette.cli.lazy import Lazy, lazy_group

COMMANDS = {
    "up": Lazy(
        "stafette.cli.up:up",
        "Start the embedded PostgreSQL, a broker and the web console in the background; harmless if they already run.",
    ),
    "down": Lazy(
        "stafette.cli.up:down",
        "Stop what `stafette up` started, after the broker has drained; harmless if nothing runs.",
    ),
    "status": Lazy(
        "stafette.cli.up:status",
        "Show what runs; exit code 3 if the broker or the database does not.",
    ),
    "doctor": Lazy(
        "stafette.cli.doctor:doctor", "Check what Stafette needs on this machine, and say how to fix what is wrong."
    ),
    "send": Lazy("stafette.cli.send:send", "Send a message; when its id is printed, it is on disk."),
    "receive": Lazy("stafette.cli.receive:receive", "Take messages out of a queue and print them."),
    "peek": Lazy("stafette.cli.receive:peek", "Print messages and leave them in the queue."),
    "request": Lazy("stafette.cli.request:request", "Send a request and print the answer to it."),
    "reply": Lazy("stafette.cli.request:reply", "Take a request out of a queue and answer it."),
    "queue": Lazy("stafette.cli.queue:app", "Queues: list, create, inspect, purge, delete."),
    "client": Lazy("stafette.cli.client:app", "Clients: list, inspect, delete."),
    "shell": Lazy(
        "stafette.cli.shell.command:shell", "Type commands for a broker on one connection, or run a script of them."
    ),
    "db": Lazy("stafette.cli.db_bench:app", "The database: start, stop, migrate, reset."),
    "broker": Lazy(
        "stafette.cli.broker:app",
        "Run a broker in the foreground and print its URL; SIGTERM or Ctrl-C drains it.",
    ),
    "web": Lazy("stafette.cli.web:app", "Run the web console in the foreground and print its URL; Ctrl-C ends it."),
    "bench": Lazy(
        "stafette.cli.bench:bench",
        "Measure throughput and response time with the public client, closed loop unless --rate is given.",
    ),
    "lab": Lazy("stafette.cli.lab:app", "The laboratory: run experiments, show and compare their results."),
    "analyze": Lazy("stafette.cli.analyze:analyze", "Analyse runs with Spark: tables, summary and report."),
    "factorial": Lazy(
        "stafette.cli.factorial:factorial",
        "Compute the effects of factors with two levels, their share of the variation, and intervals if runs repeat.",
    ),
    "completion": Lazy(
        "stafette.cli.completion:completion", "Print the script with which a shell completes this command."
    ),
}

app = typer.Typer(
    name="stafette",
    cls=lazy_group(COMMANDS),
    help="Durable message passing on PostgreSQL, with the laboratory that measures it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"stafette {stafette.__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Durable message passing on PostgreSQL, with the laboratory that measures it."""
