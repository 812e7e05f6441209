"""Messages on their way in and out: bytes stay bytes in a pipe, and cannot do harm on a terminal."""

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
from stafette.cli.output import harmless, show_json
from stafette.errors import MessageTooLarge
from stafette.model import Message, text_or_base64

STANDARD_INPUT = "-"
LARGEST_BODY = 64 * 1024 * 1024
"""What the most generous queue takes; there is no need to read on."""

CHUNK_BYTES = 256 * 1024
LINES_AT_ONCE = 1000

Body = Annotated[
    str | None, typer.Argument(metavar="BODY|-", help="The body; - or nothing reads it from standard input.")
]
Priority = Annotated[int, typer.Option("--priority", min=1, max=10, help="10 is handed out first.")]
Receiver = Annotated[
    str | None,
    typer.Option("--receiver", metavar="CLIENT", help="Only for this client.", autocompletion=client_names),
]
NoNewline = Annotated[bool, typer.Option("-n", "--no-newline", help="In a pipe, print nothing after a body.")]


def read_body(given: str | None) -> bytes:
    """The body that was typed, or that comes through a pipe; in the shell, the one that it asks for."""
    if session := current_session():
        return session.ask_body() if given is None else given.encode(errors="surrogateescape")
    if given is not None and given != STANDARD_INPUT:
        return os.fsencode(given)  # the very bytes of the command line, UTF-8 or not
    if given is None and sys.stdin.isatty():
        raise typer.BadParameter("say what to send: a BODY, or - to type it, or send it through a pipe")
    body = sys.stdin.buffer.read(LARGEST_BODY + 1)
    if len(body) > LARGEST_BODY:
        raise MessageTooLarge(
            f"standard input has more than the {LARGEST_BODY} bytes that a message can have; cut it, as --lines does"
        )
    return body


def read_lines() -> Iterator[list[bytes]]:
    """The lines of standard input, as many at once as have come: a slow writer's are not kept waiting for more."""
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LARGEST_BODY:
            raise MessageTooLarge(f"a line has more than the {LARGEST_BODY} bytes that a message can have")
        for start in range(0, len(lines), LINES_AT_ONCE):
            yield lines[start : start + LINES_AT_ONCE]
    if rest:
        yield [rest]


def show_message(message: Message, *, as_json: bool, newline: bool = True) -> None:
    """Print a message and see it off: when this returns, it is out of our hands."""
    if as_json:
        show_json(as_object(message))
    elif sys.stdout.isatty() and (session := current_session()):
        session.show_message(message)
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(harmless(_head(message)), style="bold cyan"), soft_wrap=True)
        print(harmless(message.body.decode(errors="backslashreplace"), keep="\n\t"))
    else:
        sys.stdout.buffer.write(message.body + b"\n" if newline else message.body)
    sys.stdout.flush()


def _head(message: Message) -> str:
    facts = [f"#{message.id}", f"from {message.sender}"]
    if message.receiver is not None:
        facts.append(f"to {message.receiver}")
    facts += [f"priority {message.priority}", f"{message.arrived_at.astimezone():%Y-%m-%d %H:%M:%S}"]
    if message.context is not None:
        facts.append(f"context {message.context}")
    if message.deliveries > 1:
        facts.append(f"delivery {message.deliveries}")
    facts += [f"{name}={value}" for name, value in (message.headers or {}).items()]
    return "  ".join(facts)


def as_object(message: Message) -> dict[str, Any]:
    """A message for JSON; a body that is no text goes as base64."""
    facts = {name: getattr(message, name) for name in message.__struct_fields__ if name != "body"}
    text, coded = text_or_base64(message.body)
    return facts | ({"body": text} if coded is None else {"body": None, "body_base64": coded})


@contextmanager
def to_the_end() -> Iterator[None]:
    """Put Ctrl-C off while messages are printed that exist nowhere else any more; a second one is heard at once."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
        yield
        return
    pressed = False

    def note(number: int, frame: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


_HEADER = re.compile(r"(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)


def read_headers(given: list[str] | None) -> dict[str, str] | None:
    """Headers from the command line, NAME=VALUE each."""
    headers = {}
    for text in given or []:
        parts = _HEADER.fullmatch(text)
        if parts is None:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
        headers[parts["name"]] = parts["value"]
    return headers or None
