"""Commands about queues and clients."""

from __future__ import annotations

from typing import Any

from stafette.cli.shell import show
from stafette.cli.shell.commands import Talk, command
from stafette.cli.shell.grammar import QUEUE, WHOLE, YES_NO
from stafette.cli.shell.state import Need


@command("queues", needs=(Need.CONNECTED,), at_most=0)
async def queues(talk: Talk) -> None:
    """List all queues."""
    show.queues(await talk.client.queues())


@command("waiting", needs=(Need.CONNECTED,), at_most=0, options={"limit": WHOLE})
async def waiting(talk: Talk, **options: Any) -> None:
    """List the queues that hold messages for you."""
    show.queues(await talk.client.waiting_queues(**options))


@command(
    "create QUEUE",
    needs=(Need.CONNECTED, Need.MAY_CHANGE),
    at_least=1,
    at_most=1,
    options={
        "exclude-own": YES_NO, "exist-ok": YES_NO, "max-body": WHOLE, "max-deliveries": WHOLE, "dead-letter": QUEUE,
    },
)  # fmt: skip
async def create(talk: Talk, name: str, **options: Any) -> None:
    """Make a queue.

    With exclude-own=yes nobody is handed what it sent itself; with exist-ok=yes a queue that exists is no error.
    A message that was leased max-deliveries times and never acknowledged goes to the queue dead-letter.
    """
    queue = await talk.client.create_queue(name, **options)
    show.remark(f"queue {show.harmless(queue.name)} is there")


@command(
    "delete QUEUE",
    needs=(Need.CONNECTED, Need.MAY_CHANGE),
    at_least=1,
    at_most=1,
    words=("queue",),
    options={"force": YES_NO},
)
async def delete(talk: Talk, name: str, **options: Any) -> None:
    """Delete an empty queue; with force=yes any, with all its messages."""
    await talk.client.delete_queue(name, **options)
    show.remark(f"queue {show.harmless(name)} is gone")


@command("clients", needs=(Need.CONNECTED,), at_most=0)
async def clients(talk: Talk) -> None:
    """List all registered clients, and where they are online."""
    show.clients(await talk.client.clients())
