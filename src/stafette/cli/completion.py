"""`stafette completion`, and completion of names of queues and clients, which come from a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stafette.cli.current_session import Kind, current_session
from stafette.errors import StafetteError

PROGRAM = "stafette"
VARIABLE = "_STAFETTE_COMPLETE"
COMPLETION_SECONDS = 1.0
"""A person who presses Tab waits no longer than this."""


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print the script with which a shell completes this command.

    Example: stafette completion bash >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))


def prepare() -> None:
    """Register the shells with Typer, which does so by itself only if every command has completion options."""
    from typer._completion_classes import completion_init

    completion_init()


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues that begin with the incomplete word."""
    return _names(context, incomplete, "queue")


def client_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of clients that begin with the incomplete word."""
    return _names(context, incomplete, "client")


def _names(context: typer.Context, incomplete: str, kind: Kind) -> list[str]:
    """Names from the broker that the options of the line choose; none on an error, which a Tab cannot show."""
    if session := current_session():
        return [name for name in session.names(kind) if name.startswith(incomplete)]
    from stafette.cli.broker_link import connect

    options = {name: context.params.get(name) for name in ("url", "name", "secret")}
    data = context.params.get("data")
    try:
        with connect(**options, data=Path(data) if data else None, timeout=COMPLETION_SECONDS) as client:
            names = [entry.name for entry in (client.queues() if kind == "queue" else client.clients())]
            return [name for name in names if name.startswith(incomplete)]
    except (StafetteError, OSError):
        return []


QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of a queue.", autocompletion=queue_names)]
ClientName = Annotated[str, typer.Argument(metavar="NAME", help="Name of a client.", autocompletion=client_names)]
