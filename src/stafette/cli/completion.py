"""`stafette completion`, and the names that only a broker knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stafette.cli.current_session import Kind, current_session
from stafette.errors import StafetteError

PROGRAM = "stafette"
VARIABLE = "_STAFETTE_COMPLETE"
COMPLETION_SECONDS = 1.0
"""Nobody waits longer for a Tab."""


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> None:
    """Print what lets a shell complete this command.

    Example: stafette completion bash >> ~/.bashrc
    """
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))


def prepare() -> None:
    """Teach Typer the shells it knows; it does so by itself only with options for this on every command."""
    from typer._completion_classes import completion_init

    completion_init()


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues that a word may become."""
    return _names(context, incomplete, "queue")


def client_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of clients that a word may become."""
    return _names(context, incomplete, "client")


def _names(context: typer.Context, incomplete: str, kind: Kind) -> list[str]:
    """Ask the broker that the rest of the line means; whatever is wrong there, a Tab is not the place to say it."""
    if session := current_session():
        return [name for name in session.names(kind) if name.startswith(incomplete)]
    from stafette.cli.broker_link import connect

    given = {name: context.params.get(name) for name in ("url", "name", "secret")}
    data = context.params.get("data")
    try:
        with connect(**given, data=Path(data) if data else None, timeout=COMPLETION_SECONDS) as client:
            named = client.queues() if kind == "queue" else client.clients()
            return [item.name for item in named if item.name.startswith(incomplete)]
    except (StafetteError, OSError):
        return []


QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of a queue.", autocompletion=queue_names)]
ClientName = Annotated[str, typer.Argument(metavar="NAME", help="Name of a client.", autocompletion=client_names)]
