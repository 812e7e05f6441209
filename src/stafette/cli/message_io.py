"""Reads message bodies and prints messages: exact bytes in a pipe, harmless text on a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from stafette.cli.completion import client_names
from stafette.cli.current_session import current_session
from stafette.cli.output import escape_controls, show_json
from stafette.errors import MessageTooLarge
from stafette.model import Message, text_or_base64

STANDARD_INPUT = "-"
LARGEST_BODY = 64 * 1024 * 1024
"""The largest body that any queue can allow; longer input is refused before all of it is read."""

CHUNK_BYTES = 256 * 1024
LINES_AT_ONCE = 1000

Body = Annotated[
    str | None,
    typer.Argument(metavar="BODY|-", help="The message body; without it, or with -, standard input is read."),
]
Priority = Annotated[int, typer.Option("--priority", min=1, max=10, help="Priority; 10 is delivered first.")]
Receiver = Annotated[
    str | None,
    typer.Option(
        "--receiver", metavar="CLIENT", help="The only client that may read the message.", autocompletion=client_names
    ),
]
NoNewline = Annotated[bool, typer.Option("-n", "--no-newline", help="In a pipe, print no newline after a body.")]


def read_body(argument: str | None) -> bytes:
    """The body from the command line or standard input; in the shell, from its prompt."""
    if session := current_session():
        return session.ask_body() if argument is None else argument.encode(errors="surrogateescape")
    if argument is not None and argument != STANDARD_INPUT:
        return os.fsencode(argument)  # the exact bytes of the command line, UTF-8 or not
    if argument is None and sys.stdin.isatty():
        raise typer.BadParameter("no body to send; give BODY, or - to type it, or use a pipe")
    body = sys.stdin.buffer.read(LARGEST_BODY + 1)
    if len(body) > LARGEST_BODY:
        raise MessageTooLarge(
            f"standard input has more than {LARGEST_BODY} bytes, the maximum of a message;"
            " split it, for example with --lines"
        )
    return body


def read_lines() -> Iterator[list[bytes]]:
    """Batches of lines of standard input, each as soon as it can be read: lines do not wait for a full batch."""
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LARGEST_BODY:
            raise MessageTooLarge(f"a line has more than {LARGEST_BODY} bytes, the maximum of a message")
        for start in range(0, len(lines), LINES_AT_ONCE):
            yield lines[start : start + LINES_AT_ONCE]
    if rest:
        yield [rest]


def show_message(message: Message, *, as_json: bool, newline: bool = True) -> None:
    """Print a message and flush: when this returns, the message has left this process."""
    if as_json:
        show_json(as_object(message))
    elif sys.stdout.isatty() and (session := current_session()):
        session.show_message(message)
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(escape_controls(_head(message)), style="bold cyan"), soft_wrap=True)
        print(escape_controls(message.body.decode(errors="backslashreplace"), keep="\n\t"))
    else:
        sys.stdout.buffer.write(message.body + b"\n" if newline else message.body)
    sys.stdout.flush()


def _head(message: Message) -> str:
    parts = [f"#{message.id}", f"from {message.sender}"]
    if message.receiver is not None:
        parts.append(f"to {message.receiver}")
    parts += [f"priority {message.priority}", f"{message.arrived_at.astimezone():%Y-%m-%d %H:%M:%S}"]
    if message.context is not None:
        parts.append(f"context {message.context}")
    if message.deliveries > 1:
        parts.append(f"delivery {message.deliveries}")
    parts += [f"{name}={value}" for name, value in (message.headers or {}).items()]
    return "  ".join(parts)


def as_object(message: Message) -> dict[str, Any]:
    """A message for JSON; a body that is not UTF-8 is in base64."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__ if name != "body"}
    text, encoded = text_or_base64(message.body)
    return fields | ({"body": text} if encoded is None else {"body": None, "body_base64": encoded})


@contextmanager
def delay_interrupt() -> Iterator[None]:
    """Delay Ctrl-C while what was taken is printed, and acked if it is leased; a second Ctrl-C works at once."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
        yield
        return
    interrupted = False

    def note(number: int, frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if interrupted:
        raise KeyboardInterrupt


_HEADER = re.compile(r"(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)


def read_headers(arguments: list[str] | None) -> dict[str, str] | None:
    """Headers from the command line, NAME=VALUE each."""
    headers = {}
    for text in arguments or []:
        parts = _HEADER.fullmatch(text)
        if parts is None:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
        headers[parts["name"]] = parts["value"]
    return headers or None
