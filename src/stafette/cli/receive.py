"""`stafette receive` and `stafette peek`: messages out of a queue, and messages left where they are."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import QueueName, client_names
from stafette.cli.exits import NoMessage
from stafette.cli.message_io import NoNewline, show_message, to_the_end
from stafette.cli.output import Json
from stafette.cli.progress import Progress
from stafette.model import Message, Order

if TYPE_CHECKING:
    from stafette.client.sync import Client

AT_ONCE = 100
"""Messages taken in one round trip when several are wanted."""

PAGE = 100
ANY_QUEUE = "any queue"
"""What the shell may read from, with a sender or a context."""

FOLLOW_SECONDS = 3600.0
"""How long to wait at a time when there is no end to it."""

Wait = Annotated[float | None, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait so long for each.")]
Count = Annotated[int | None, typer.Option("--count", min=1, help="Up to so many messages; by default one.")]
All = Annotated[bool, typer.Option("--all", help="As many as there are.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for ever; Ctrl-C ends it.")]
Sender = Annotated[
    str | None,
    typer.Option("--sender", metavar="CLIENT", help="Only what this client sent.", autocompletion=client_names),
]
Context = Annotated[int | None, typer.Option("--context", help="Only what has this context.")]


def receive(
    queue: QueueName,
    wait: Wait = None,
    count: Count = None,
    all_: All = False,
    follow: Follow = False,
    sender: Sender = None,
    context: Context = None,
    order: Annotated[Order, typer.Option("--order", help="What comes first.")] = "priority",
    lease: Annotated[
        bool, typer.Option("--lease", help="Remove a message only when it has been printed: nothing can be lost.")
    ] = False,
    no_newline: NoNewline = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> Message | None:
    """Take messages out of a queue and print them.

    In a pipe a message is its body and a newline. Exit code 4 when there is none, 5 when none came in time.

    Example: stafette receive jobs --wait 10, or: stafette receive jobs --all --lease | gzip > jobs.gz
    """
    wanted = how_many(count, all_=all_, follow=follow, wait=wait)
    patience = FOLLOW_SECONDS if follow else wait
    filters: dict[str, Any] = {"sender": sender, "context": context, "order": order}
    with connect(url, name, secret, data) as me:
        take = _leased if lease else _removed
        message = None
        with closing(take(me, queue, wanted, patience, follow, filters)) as taken:  # gives back what was not printed
            for message in taken:
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
        Order | None, typer.Option("--order", help="What comes first; several come by arrival unless told.")
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
    wanted = how_many(count, all_=all_, follow=False, wait=wait)
    if queue is None and wanted != 1:
        raise typer.BadParameter("is needed for more than one message", param_hint="QUEUE")
    filters: dict[str, Any] = {"sender": sender, "context": context}
    with connect(url, name, secret, data) as me:
        with Progress(f"waiting for a message in {queue or ANY_QUEUE}"):
            first = me.peek(queue, wait=wait, order=order or "priority", **filters)
        found: Iterator[Message] = iter([first] if first else [])
        if first is not None and wanted != 1:
            found = _browse(me, queue, order, sender, context)
        shown = 0
        for message in islice(found, wanted):
            show_message(message, as_json=as_json, newline=not no_newline)
            shown += 1
    if not shown:
        raise NoMessage(queue, wait)


def how_many(count: int | None, *, all_: bool, follow: bool, wait: float | None) -> int | None:
    """How many messages are wanted; None is as many as come. Refuses what cannot be meant."""
    if all_ and (count is not None or follow):
        raise typer.BadParameter("--all goes with neither --count nor --follow", param_hint="--all")
    if follow and wait is not None:
        raise typer.BadParameter("--follow waits for ever; leave --wait away", param_hint="--follow")
    return None if all_ or (follow and count is None) else count or 1


def _removed(
    me: Client, queue: str, wanted: int | None, wait: float | None, follow: bool, filters: dict[str, Any]
) -> Generator[Message, None, None]:
    """Messages that exist nowhere but here any more."""
    left = wanted
    while left is None or left > 0:
        with Progress(f"waiting for a message in {queue or ANY_QUEUE}; Ctrl-C ends it"):
            batch = me.receive_many(queue, AT_ONCE if left is None else min(left, AT_ONCE), wait=wait, **filters)
        if not batch and not follow:
            return
        with to_the_end():
            yield from batch
        left = None if left is None else left - len(batch)


def _leased(
    me: Client, queue: str, wanted: int | None, wait: float | None, follow: bool, filters: dict[str, Any]
) -> Generator[Message, None, None]:
    """Messages that are removed when the reader asks for the next: then this one has been printed."""
    taken = 0
    while wanted is None or taken < wanted:
        with Progress(f"waiting for a message in {queue or ANY_QUEUE}; Ctrl-C ends it"):
            lease = me.lease(queue, wait=wait, **filters)
        if not lease and not follow:
            return
        with lease as work:
            if work is not None and work.message is not None:
                yield work.message
                taken += 1


def _browse(me: Client, queue: str, order: Order | None, sender: str | None, context: int | None) -> Iterator[Message]:
    found = (
        message
        for message in _pages(me, queue)
        if sender in (None, message.sender) and context in (None, message.context)
    )
    return iter(sorted(found, key=lambda message: -message.priority)) if order == "priority" else found


def _pages(me: Client, queue: str) -> Iterator[Message]:
    after = None
    while page := me.browse(queue, after=after, limit=PAGE):
        yield from page
        after = page[-1].id
