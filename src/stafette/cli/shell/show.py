"""What the shell prints: messages, results, remarks and warnings.

A message comes from another client: control characters in it are escaped, so that they cannot steer the terminal.
"""

from __future__ import annotations

import sys

from stafette.cli.output import escape_controls
from stafette.model import Message

BYTES_IN_A_ROW = 32
INNERMOST_FRAMES = 10
"""Frames of a traceback that --debug shows; the frames above them only parse the line."""

_LAYOUT = "\n\t"


def format_body(content: bytes) -> str:
    """A body for a terminal: text if it is UTF-8, else hex."""
    try:
        return escape_controls(content.decode(), _LAYOUT)
    except UnicodeDecodeError:
        rows = range(0, len(content), BYTES_IN_A_ROW)
        return "\n".join(content[start : start + BYTES_IN_A_ROW].hex(" ") for start in rows)


def format_head(message: Message) -> str:
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
    return escape_controls(", ".join(parts))


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def result(text: str) -> None:
    """Print the result of a command."""
    print(text, flush=True)


def remark(detail: str) -> None:
    """Print a remark on a terminal; a pipe gets only results."""
    if sys.stdout.isatty():
        print(detail, flush=True)


def aside(text: str) -> None:
    """Print a note about a result: on a terminal with the result, else on standard error."""
    if sys.stdout.isatty():
        result(text)
    else:
        warn(text)


def warn(detail: str) -> None:
    """Print an error, or an event that no command caused."""
    sys.stdout.flush()
    print(escape_controls(detail), file=sys.stderr, flush=True)
