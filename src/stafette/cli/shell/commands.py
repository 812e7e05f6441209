"""The shell's own commands, about the connection, the lease and the conversation, defined as those of `stafette`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stafette.cli.completion import QueueName, queue_names
from stafette.cli.exits import NoMessage
from stafette.cli.message_io import read_body, show_message
from stafette.cli.output import harmless
from stafette.cli.receive import Context, Sender, Wait
from stafette.cli.shell import show
from stafette.cli.shell.shell_session import current
from stafette.cli.shell.state import Held, broker_name, unmet
from stafette.errors import LeaseLost
from stafette.model import Mode, Order

LEASE_SECONDS = 30.0
SUMMARY_WIDTH = 100

app = typer.Typer(add_completion=False)

Words = Annotated[list[str] | None, typer.Argument(metavar="BODY", help="The body; without one it is asked for.")]
OwnQueue = Annotated[
    str | None,
    typer.Argument(metavar="QUEUE", help="Name of a queue; by default your personal one.", autocompletion=queue_names),
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
        str | None, typer.Option("--name", help="Who to be, also: as NAME.", autocompletion=_own_name)
    ] = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Whether to change anything.")] = None,
) -> None:
    """Connect to a broker, by default to the last one and under the last name.

    If the name has a secret, it is asked for.
    """
    session = current()
    session.connect(url if url is None or "://" in url else f"stafette://{url}", name, mode)
    state = session.state
    read_only = ", read-only" if state.mode != "full" else ""
    show.remark(f"connected to {broker_name(state.url or '')} as {harmless(session.client.name)}{read_only}")


@app.command()
def disconnect() -> None:
    """Hang up; a message that is held is given back."""
    current().leave()
    show.remark("disconnected")


@app.command()
def ping() -> None:
    """Say how long it takes to the broker and back."""
    show.result(f"{current().client.ping() * 1000:.2f} ms")


# Leases


@app.command()
def lease(
    queue: OwnQueue = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long to hold it.")] = LEASE_SECONDS,
    sender: Sender = None,
    context: Context = None,
    order: Annotated[Order, typer.Option("--order", help="What comes first.")] = "priority",
    wait: Wait = None,
) -> None:
    """Take the next message and hold it; `ack` removes it and `nack` gives it back.

    Without a queue it is from your personal one, or with a sender or a context from any.
    """
    session = current()
    queue = queue or session.default_queue(sender, context)
    requested = time.monotonic()
    taken = session.client.lease(queue, seconds=seconds, sender=sender, context=context, order=order, wait=wait)
    if taken.message is None:
        raise NoMessage(queue, wait)
    session.state.held = Held(taken, taken.message, max(requested, time.monotonic()) + seconds)
    session.state.last = None
    show_message(taken.message, as_json=False)


@app.command()
def ack() -> None:
    """Be done with the message that is held: it is removed."""
    held = current().state.end_lease(lambda lease: lease.ack())
    show.remark(f"message {held.message.id} is done")


@app.command()
def nack(
    delay: Annotated[float | None, typer.Argument(metavar="DELAY", min=0, help="Seconds until it is ready.")] = None,
) -> None:
    """Give the message that is held back."""
    held = current().state.end_lease(lambda lease: lease.nack(delay))
    show.remark(f"message {held.message.id} is given back" + (f", ready in {delay:g} seconds" if delay else ""))


@app.command()
def extend(
    seconds: Annotated[float, typer.Argument(metavar="SECONDS", min=0, help="How long, from now.")] = LEASE_SECONDS,
) -> None:
    """Hold the message for longer."""
    state = current().state
    held = state.held
    assert held is not None
    requested = time.monotonic()
    try:
        held.lease.extend(seconds)
    except LeaseLost:
        state.held = None
        raise
    held.deadline = requested + seconds
    show.remark(f"message {held.message.id} is held for {seconds:g} seconds from now")


# Messages


@app.command()
def browse(
    queue: QueueName,
    after: Annotated[int | None, typer.Option("--after", metavar="ID", help="Go on after this message.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
) -> None:
    """Show the messages in a queue in order of arrival, and leave them there."""
    messages = current().client.browse(queue, after=after, limit=limit)
    for message in messages:
        show_message(message, as_json=False)
    if not messages:
        raise NoMessage(queue, None)


@app.command()
def reply(
    body: Words = None,
    priority: Annotated[int | None, typer.Option("--priority", min=1, max=10, help="By default the request's.")] = None,
) -> None:
    """Answer the message that is held, which is then done, or else the one received last."""
    session = current()
    state = session.state
    message, is_held = state.answerable, state.holding
    assert message is not None
    content = read_body(" ".join(body) if body else None)
    show.result("\n".join(map(str, session.client.reply(message, content, priority=priority))))
    if is_held:
        state.end_lease(lambda lease: lease.ack())
    state.last = None


# The conversation


def _possible_commands(context: typer.Context, incomplete: str) -> list[str]:
    return current().possible()


@app.command("help")
def help_(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="What to explain.", autocompletion=_possible_commands),
    ] = None,
) -> None:
    """List what is possible now, or explain one command."""
    session = current()
    if command:
        line = session.read(command)
        about = typer.Context(line.command, parent=context.parent, info_name=" ".join(line.path))
        if text := line.command.get_help(about):  # on a terminal it is printed already
            show.result(text)
        if reason := unmet(line.path, session.state):
            show.result(f"not possible now: {reason}")
        return
    rows = []
    for name in session.possible():
        definition = session.read([name]).command
        _, *words = definition.collect_usage_pieces(typer.Context(definition))
        usage = " ".join([name, *(word.strip("{}") for word in words)])
        rows.append((usage, definition.get_short_help_str(SUMMARY_WIDTH)))
    width = max(len(usage) for usage, _ in rows)
    show.result("\n".join(f"{usage:<{width}}  {summary}" for usage, summary in rows))


@app.command(r"\timing")
def timing() -> None:
    """Show how many milliseconds every command takes, or stop that."""
    state = current().state
    state.timing = not state.timing
    show.remark(f"timing is {'on' if state.timing else 'off'}")


@app.command("quit")
def quit_() -> None:
    """Leave the shell, as Ctrl-D does; a message that is held is given back."""
    current().state.over = True
