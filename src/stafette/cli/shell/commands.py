"""The commands that only the shell has, for its connection, its lease and itself; defined like those of `stafette`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stafette.cli.completion import QueueName, queue_names
from stafette.cli.exits import NoMessage
from stafette.cli.message_io import read_body, show_message
from stafette.cli.output import escape_controls
from stafette.cli.receive import Context, Sender, Wait
from stafette.cli.shell import show
from stafette.cli.shell.shell_session import current
from stafette.cli.shell.state import HeldLease, broker_name, unmet_need
from stafette.errors import LeaseLost
from stafette.model import Mode, Order

LEASE_SECONDS = 30.0
SUMMARY_WIDTH = 100

app = typer.Typer(add_completion=False)

Words = Annotated[list[str] | None, typer.Argument(metavar="BODY", help="The body; without it, the shell asks for it.")]
OwnQueue = Annotated[
    str | None,
    typer.Argument(metavar="QUEUE", help="Name of a queue; default: your personal queue.", autocompletion=queue_names),
]


# The session


def _brokers(context: typer.Context, incomplete: str) -> list[str]:
    return current().urls()


def _own_name(context: typer.Context, incomplete: str) -> list[str]:
    return [name for name in [current().state.name] if name]


@app.command()
def connect(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL] [as NAME]", help="stafette://HOST:PORT, or HOST:PORT alone.", autocompletion=_brokers
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of this client; also: as NAME.", autocompletion=_own_name)
    ] = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="read-only forbids changes.")] = None,
) -> None:
    """Connect to a broker; default: the last broker and the last name.

    If the name needs a secret, the shell asks for it.
    """
    session = current()
    session.connect(url if url is None or "://" in url else f"stafette://{url}", name, mode)
    state = session.state
    read_only = ", read-only" if state.mode != "full" else ""
    show.remark(f"connected to {broker_name(state.url or '')} as {escape_controls(session.client.name)}{read_only}")


@app.command()
def disconnect() -> None:
    """Close the connection; a held message is given back."""
    current().leave()
    show.remark("disconnected")


@app.command()
def ping() -> None:
    """Measure a round trip to the broker."""
    show.result(f"{current().client.ping() * 1000:.2f} ms")


# Leases


@app.command("lease")
def lease_(
    queue: OwnQueue = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Length of the lease.")] = LEASE_SECONDS,
    sender: Sender = None,
    context: Context = None,
    order: Annotated[Order, typer.Option("--order", help="Which message comes first.")] = "priority",
    wait: Wait = None,
) -> None:
    """Take the next message and hold it; `ack` removes it and `nack` gives it back.

    Without a queue, it reads your personal queue, or with a sender or a context any queue.
    """
    session = current()
    queue = queue or session.default_queue(sender, context)
    lease = session.client.lease(queue, seconds=seconds, sender=sender, context=context, order=order, wait=wait)
    if lease.message is None:
        raise NoMessage(queue, wait)
    session.state.held_lease = HeldLease(lease, lease.message, time.monotonic() + seconds)
    session.state.last_received = None
    show_message(lease.message, as_json=False)


@app.command()
def ack() -> None:
    """Acknowledge the held message, which removes it."""
    held = current().state.end_lease(lambda lease: lease.ack())
    show.remark(f"message {held.message.id} is acknowledged")


@app.command()
def nack(
    delay: Annotated[
        float | None, typer.Argument(metavar="DELAY", min=0, help="Seconds until the message is ready again.")
    ] = None,
) -> None:
    """Give the held message back to its queue."""
    held = current().state.end_lease(lambda lease: lease.nack(delay))
    show.remark(f"message {held.message.id} is given back" + (f", ready in {delay:g} seconds" if delay else ""))


@app.command()
def extend(
    seconds: Annotated[
        float, typer.Argument(metavar="SECONDS", min=0, help="Length of the lease from now.")
    ] = LEASE_SECONDS,
) -> None:
    """Extend the lease on the held message."""
    state = current().state
    held = state.held_lease
    assert held is not None
    started = time.monotonic()
    try:
        held.lease.extend(seconds)
    except LeaseLost:
        state.held_lease = None
        raise
    held.deadline = started + seconds
    show.remark(f"message {held.message.id} is held for {seconds:g} seconds from now")


# Messages


@app.command()
def browse(
    queue: QueueName,
    after: Annotated[int | None, typer.Option("--after", metavar="ID", help="Start after this message.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of messages.")] = 100,
) -> None:
    """Show the messages of a queue in order of arrival, and leave them there."""
    messages = current().client.browse(queue, after=after, limit=limit)
    for message in messages:
        show_message(message, as_json=False)
    if not messages:
        raise NoMessage(queue, None)


@app.command()
def reply(
    body: Words = None,
    priority: Annotated[
        int | None, typer.Option("--priority", min=1, max=10, help="Default: the priority of the request.")
    ] = None,
) -> None:
    """Answer the held message and acknowledge it; without one, answer the message received last."""
    session = current()
    state = session.state
    message, is_held = state.message_to_answer, state.holds_lease
    assert message is not None
    content = read_body(" ".join(body) if body else None)
    show.result("\n".join(map(str, session.client.reply(message, content, priority=priority))))
    if is_held:
        state.end_lease(lambda lease: lease.ack())
    state.last_received = None


# The shell


def _possible_commands(context: typer.Context, incomplete: str) -> list[str]:
    return current().possible_commands()


@app.command("help")
def help_(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The command to explain.", autocompletion=_possible_commands),
    ] = None,
) -> None:
    """List the commands that are possible now, or explain one."""
    session = current()
    if command:
        line = session.read(command)
        about = typer.Context(line.command, parent=context.parent, info_name=" ".join(line.path))
        if text := line.command.get_help(about):  # on a terminal, it has printed the text itself
            show.result(text)
        if reason := unmet_need(line.path, session.state):
            show.result(f"not possible now: {reason}")
        return
    rows = []
    for name in session.possible_commands():
        definition = session.read([name]).command
        _, *words = definition.collect_usage_pieces(typer.Context(definition))
        usage = " ".join([name, *(word.strip("{}") for word in words)])
        rows.append((usage, definition.get_short_help_str(SUMMARY_WIDTH)))
    width = max(len(usage) for usage, _ in rows)
    show.result("\n".join(f"{usage:<{width}}  {summary}" for usage, summary in rows))


@app.command(r"\timing")
def timing() -> None:
    """Switch on or off that the shell prints how long each command takes."""
    state = current().state
    state.timing = not state.timing
    show.remark(f"timing is {'on' if state.timing else 'off'}")


@app.command("quit")
def quit_() -> None:
    """Leave the shell, as Ctrl-D does; a held message is given back."""
    current().state.is_leaving = True
