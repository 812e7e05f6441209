"""`stafette receive` takes messages out of a queue; `stafette peek` prints them and leaves them there."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import QueueName, client_names
from stafette.cli.exits import NoMessage
from stafette.cli.message_io import NoNewline, delay_interrupt, show_message
from stafette.cli.output import Json
from stafette.cli.progress import Progress
from stafette.model import Message, Order

if TYPE_CHECKING:
    from stafette.client.sync import Client

BATCH = 100
"""Messages that one call receives, at most."""

PAGE = 100
"""Messages that one call browses."""

ANY_QUEUE = "any queue"
"""For messages; in the shell, a sender or a context may stand instead of a queue."""

FOLLOW_SECONDS = 3600.0
"""How long one call waits with --follow, before the next one does."""

Wait = Annotated[
    float | None, typer.Option("--wait", min=0, metavar="SECONDS", help="Maximum time to wait for each message.")
]
Count = Annotated[int | None, typer.Option("--count", min=1, help="Maximum number of messages; default: 1.")]
All = Annotated[bool, typer.Option("--all", help="All messages in the queue.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep waiting for messages; Ctrl-C ends it.")]
Sender = Annotated[
    str | None,
    typer.Option("--sender", metavar="CLIENT", help="Only messages from this client.", autocompletion=client_names),
]
Context = Annotated[int | None, typer.Option("--context", help="Only messages with this context.")]


def receive(
    queue: QueueName,
    wait: Wait = None,
    count: Count = None,
    all_: All = False,
    follow: Follow = False,
    sender: Sender = None,
    context: Context = None,
    order: Annotated[Order, typer.Option("--order", help="Which message comes first.")] = "priority",
    lease: Annotated[
        bool, typer.Option("--lease", help="Remove a message only after it is printed, so that none is lost.")
    ] = False,
    no_newline: NoNewline = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> Message | None:
    """Take messages out of a queue and print them.

    In a pipe, a message is its body and a newline. Exit code 4: no message; 5: none arrived in time.

    Example: stafette receive jobs --wait 10, or: stafette receive jobs --all --lease | gzip > jobs.gz
    """
    limit = message_limit(count, all_=all_, follow=follow, wait=wait)
    seconds = FOLLOW_SECONDS if follow else wait
    filters: dict[str, Any] = {"sender": sender, "context": context, "order": order}
    with connect(url, name, secret, data) as client:
        read = _receive_leased if lease else _receive_batches
        message = None
        with closing(read(client, queue, limit, seconds, follow, filters)) as messages:  # returns an unprinted lease
            for message in messages:
                show_message(message, as_json=as_json, newline=not no_newline)
    if message is None:
        raise NoMessage(queue, wait)
    return message


def peek(
    queue: QueueName,
    wait: Wait = None,
    count: Count = None,
    all_: All = False,
    sender: Sender = None,
    context: Context = None,
    order: Annotated[
        Order | None,
        typer.Option("--order", help="Which message comes first; default: by arrival if there are several."),
    ] = None,
    no_newline: NoNewline = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print messages and leave them in the queue.

    Example: stafette peek jobs --all --json
    """
    limit = message_limit(count, all_=all_, follow=False, wait=wait)
    if queue is None and limit != 1:
        raise typer.BadParameter("required for more than one message", param_hint="QUEUE")
    filters: dict[str, Any] = {"sender": sender, "context": context}
    with connect(url, name, secret, data) as client:
        with Progress(f"waiting for a message in {queue or ANY_QUEUE}"):
            first = client.peek(queue, wait=wait, order=order or "priority", **filters)
        messages: Iterator[Message] = iter([first] if first else [])
        if first is not None and limit != 1:
            messages = _browse(client, queue, order, sender, context)
        printed_count = 0
        for message in islice(messages, limit):
            show_message(message, as_json=as_json, newline=not no_newline)
            printed_count += 1
    if not printed_count:
        raise NoMessage(queue, wait)


def message_limit(count: int | None, *, all_: bool, follow: bool, wait: float | None) -> int | None:
    """The number of messages to read, None for no limit; refuses options that contradict each other."""
    if all_ and (count is not None or follow):
        raise typer.BadParameter("--all excludes --count and --follow", param_hint="--all")
    if follow and wait is not None:
        raise typer.BadParameter("--follow waits without a limit; leave out --wait", param_hint="--follow")
    return None if all_ or (follow and count is None) else count or 1


def _receive_batches(
    client: Client, queue: str, limit: int | None, wait: float | None, follow: bool, filters: dict[str, Any]
) -> Generator[Message, None, None]:
    """Messages that are removed before they are printed; from then on they are stored nowhere else."""
    remaining = limit
    while remaining is None or remaining > 0:
        with Progress(f"waiting for a message in {queue or ANY_QUEUE}; Ctrl-C ends it"):
            size = BATCH if remaining is None else min(remaining, BATCH)
            batch = client.receive_many(queue, size, wait=wait, **filters)
        if not batch and not follow:
            return
        with delay_interrupt():
            yield from batch
        remaining = None if remaining is None else remaining - len(batch)


def _receive_leased(
    client: Client, queue: str, limit: int | None, wait: float | None, follow: bool, filters: dict[str, Any]
) -> Generator[Message, None, None]:
    """Messages under a lease; each is acked when the caller asks for the next one, and so has printed it."""
    count = 0
    while limit is None or count < limit:
        with Progress(f"waiting for a message in {queue or ANY_QUEUE}; Ctrl-C ends it"):
            lease = client.lease(queue, wait=wait, **filters)
        if not lease and not follow:
            return
        with delay_interrupt(), lease as work:
            if work is not None and work.message is not None:
                yield work.message
                count += 1


def _browse(
    client: Client, queue: str, order: Order | None, sender: str | None, context: int | None
) -> Iterator[Message]:
    messages = (
        message
        for message in _pages(client, queue)
        if sender in (None, message.sender) and context in (None, message.context)
    )
    return iter(sorted(messages, key=lambda message: -message.priority)) if order == "priority" else messages


def _pages(client: Client, queue: str) -> Iterator[Message]:
    after = None
    while page := client.browse(queue, after=after, limit=PAGE):
        yield from page
        after = page[-1].id
