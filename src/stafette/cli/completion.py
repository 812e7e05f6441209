"""`stafette completion`, and the names that only a broker knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stafette.errors import StafetteError

if TYPE_CHECKING:
    from stafette.client.sync import Client

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
    return _names(context, incomplete, lambda me: [queue.name for queue in me.queues()])


def client_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of clients that a word may become."""
    return _names(context, incomplete, lambda me: [client.name for client in me.clients()])


def _names(context: typer.Context, incomplete: str, ask: Callable[[Client], list[str]]) -> list[str]:
    """Ask the broker that the rest of the line means; whatever is wrong there, a Tab is not the place to say it."""
    from stafette.cli.broker_link import connect

    given = {name: context.params.get(name) for name in ("url", "name", "secret")}
    data = context.params.get("data")
    try:
        with connect(**given, data=Path(data) if data else None, timeout=COMPLETION_SECONDS) as me:
            return [name for name in ask(me) if name.startswith(incomplete)]
    except (StafetteError, OSError):
        return []


QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of a queue.", autocompletion=queue_names)]
ClientName = Annotated[str, typer.Argument(metavar="NAME", help="Name of a client.", autocompletion=client_names)]
