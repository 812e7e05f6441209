"""`stafette queue`: lists, creates, shows, purges and deletes queues."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import QueueName, queue_names
from stafette.cli.output import Json, report, show_json, show_record, show_table
from stafette.cli.questions import Yes, confirm
from stafette.errors import QueueNotFound
from stafette.model import QUEUE_OPTIONS, Queue, QueueOption

app = typer.Typer(help="Queues: list, create, inspect, purge, delete.", no_args_is_help=True, add_completion=False)


@app.command("ls")
def list_(
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only queues with messages addressed to this client.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of queues.")] = None,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List queues by name, with the number of messages in each.

    Example: stafette queue ls --waiting --name alice
    """
    with connect(url, name, secret, data) as client:
        queues = client.waiting_queues(limit) if waiting else client.queues()[:limit]
    if as_json:
        show_json([msgspec.structs.asdict(queue) for queue in queues])
        return
    rows = [
        {
            "name": queue.name,
            "messages": queue.messages,
            "owner": queue.owner,
            "creator": queue.creator,
            "created": f"{queue.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
        }
        for queue in queues
    ]
    show_table(rows, as_json=False)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each queue option: after its first argument, instead of its `**options`."""
    signature = inspect.signature(command, eval_str=True)
    flags = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=False if option.kind == "flag" else None,
            annotation=Annotated[option.type, _flag(name, option)],
        )
        for name, option in QUEUE_OPTIONS.items()
    ]
    first, *rest, _options = signature.parameters.values()
    command.__signature__ = signature.replace(parameters=[first, *flags, *rest])  # type: ignore[attr-defined]
    return command


def _flag(name: str, option: QueueOption) -> Any:
    flag = f"--{name.replace('_', '-')}"
    if option.kind == "number":
        return typer.Option(flag, min=option.bounds[0], help=option.help)
    if option.kind == "queue":
        return typer.Option(flag, metavar="QUEUE", help=option.help, autocompletion=queue_names)
    return typer.Option(flag, help=option.help)


@app.command()
@_with_options
def create(
    new: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new queue.")],
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Succeed if the queue exists already.")] = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Create a queue.

    Example: stafette queue create jobs --max-deliveries 5 --dead-letter failed
    """
    with connect(url, name, secret, data) as client:
        queue = client.create_queue(new, exist_ok=exist_ok, **options)
    if as_json:
        show_json(msgspec.structs.asdict(queue))
    else:
        report(f"queue {queue.name} is ready", result=queue.name)


@app.command("rm")
def remove(
    queue: QueueName,
    force: Annotated[bool, typer.Option("--force", help="Delete its messages, too.")] = False,
    yes: Yes = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
) -> None:
    """Delete a queue; if it has messages, only with --force.

    Example: stafette queue rm jobs --force --yes
    """
    with connect(url, name, secret, data) as client:
        details = client.queue(queue)
        confirm(f"Delete queue {details.name}{_with_messages(details) if force else ''}?", yes=yes)
        client.delete_queue(details.name, force=force)
    report(f"queue {details.name} is deleted")


@app.command()
def info(
    queue: Annotated[
        str, typer.Argument(metavar="NAME_OR_ID", help="Name or id of a queue.", autocompletion=queue_names)
    ],
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print the details of a queue.

    Example: stafette queue info jobs --json
    """
    with connect(url, name, secret, data) as client:
        try:
            details = client.queue(queue)
        except QueueNotFound:
            if not queue.isdecimal():
                raise
            details = client.queue(int(queue))
    show_record(msgspec.structs.asdict(details), as_json=as_json)


@app.command()
def purge(
    queue: QueueName,
    yes: Yes = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Permanently delete the messages that wait in a queue, and print their number.

    Messages that other clients have sent to other clients stay. The web console deletes these, too.

    Example: stafette queue purge jobs --yes
    """
    with connect(url, name, secret, data) as client:
        details = client.queue(queue)
        confirm(f"Purge queue {details.name}{_with_messages(details)}?", yes=yes)
        count = client.purge(details.name)
    if as_json:
        show_json({"purged": count})
    else:
        print(count)


def _with_messages(queue: Queue) -> str:
    return f" with {queue.messages:,} message{'' if queue.messages == 1 else 's'}"
