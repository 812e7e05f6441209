"""What the shell prints by itself: messages for people, and remarks.

A message is somebody else's text: on a terminal, what would steer it is shown as an escape instead.
"""

from __future__ import annotations

import sys

from stafette.cli.output import harmless
from stafette.model import Message

BYTES_IN_A_ROW = 32
INNERMOST_FRAMES = 10
"""What --debug shows of a traceback: those before them only parse the line, and would fill the screen."""

_LAYOUT = "\n\t"


def body(content: bytes) -> str:
    """A body for a terminal: as text if it is text, else in hex."""
    try:
        return harmless(content.decode(), _LAYOUT)
    except UnicodeDecodeError:
        rows = range(0, len(content), BYTES_IN_A_ROW)
        return "\n".join(content[start : start + BYTES_IN_A_ROW].hex(" ") for start in rows)


def head(message: Message) -> str:
    """One line about a message."""
    parts = [f"message {message.id}", f"in {message.queue}", f"from {message.sender}"]
    if message.receiver is not None:
        parts.append(f"to {message.receiver}")
    parts.append(f"priority {message.priority}")
    if message.context is not None:
        parts.append(f"context {message.context}")
    if message.deliveries > 1:
        parts.append(f"delivery {message.deliveries}")
    parts.append(f"{len(message.body)} bytes" + ("" if _is_text(message.body) else ", in hex"))
    parts += [f"{name}={value}" for name, value in (message.headers or {}).items()]
    return harmless(", ".join(parts))


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def result(text: str) -> None:
    """Print what a command returns."""
    print(text, flush=True)


def remark(detail: str) -> None:
    """Tell a person something; who reads a pipe wants results alone."""
    if sys.stdout.isatty():
        print(detail, flush=True)


def aside(text: str) -> None:
    """Print something about a result: with it on a terminal, but apart from it in a pipe."""
    if sys.stdout.isatty():
        result(text)
    else:
        warn(text)


def warn(detail: str) -> None:
    """Tell what went wrong, or what happened without being asked for."""
    sys.stdout.flush()
    print(harmless(detail), file=sys.stderr, flush=True)
