"""`stafette send`: sends one message, or each line of standard input as a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import QueueName, queue_names
from stafette.cli.message_io import Body, Priority, Receiver, read_body, read_headers, read_lines
from stafette.cli.output import Json, show_json
from stafette.cli.progress import Progress
from stafette.model import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from stafette.client.sync import Client

Header = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Header of the message; repeatable.")
]


def send(
    queue: QueueName,
    body: Body = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="QUEUE", help="Another queue to send to; repeatable.", autocompletion=queue_names),
    ] = None,
    receiver: Receiver = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a receiver that is not registered yet.")
    ] = False,
    priority: Priority = DEFAULT_PRIORITY,
    context: Annotated[
        int | None, typer.Option("--context", help="Number that joins messages to a conversation.")
    ] = None,
    header: Header = None,
    delay: Annotated[
        float | None, typer.Option("--delay", min=0, help="Seconds until the message can be read.")
    ] = None,
    ttl: Annotated[
        float | None, typer.Option("--ttl", min=0, help="Seconds until an unread message is dropped.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: a repeated send with it stores nothing.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of standard input is a message.")] = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Send a message; when its id is printed, it is on disk.

    Example: stafette send jobs hello --priority 7, or: seq 1000 | stafette send jobs --lines
    """
    draft: dict[str, Any] = {
        "queue": [queue, *(to or [])],
        "receiver": receiver,
        "allow_unknown": allow_unknown,
        "priority": priority,
        "context": context,
        "headers": read_headers(header),
        "delay": delay,
        "ttl": ttl,
    }
    if lines:
        if body not in (None, "-") or key is not None:
            raise typer.BadParameter(
                "excludes BODY and --key: each line of standard input is a message", param_hint="--lines"
            )
        with connect(url, name, secret, data) as client:
            _send_lines(client, draft, as_json=as_json)
        return
    content = read_body(body)
    with connect(url, name, secret, data) as client:
        _show(client.send(body=content, key=key, **draft), as_json=as_json)


def _send_lines(client: Client, draft: dict[str, Any], *, as_json: bool) -> None:
    """Send lines as they are read, and print the ids, even if a later line fails."""
    all_ids: list[int] = []
    count = 0
    try:
        with Progress("waiting for lines on standard input") as progress:
            for batch in read_lines():
                answers = client.send_many([draft | {"body": line} for line in batch])
                ids = [message_id for answer in answers for message_id in answer]
                count += len(batch)
                progress.text = f"{count:,} messages sent"
                if as_json:
                    all_ids += ids
                else:
                    _show(ids, as_json=False)
    finally:
        if as_json:
            _show(all_ids, as_json=True)


def _show(ids: list[int], *, as_json: bool) -> None:
    if as_json:
        show_json({"ids": ids})
    else:
        print("\n".join(map(str, ids)), flush=True)
