"""How the shell shows things: for people on a terminal, and in a pipe as the commands of `stafette` do.

A message is somebody else's text: on a terminal, what would steer it is shown as an escape instead.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from stafette.cli.output import show_table
from stafette.model import Client, Message, Queue

BYTES_IN_A_ROW = 32
_LAYOUT = "\n\t"

# Not controls, but they change the order or the place in which other characters are shown.
_STEERING = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def harmless(text: str, keep: str = "") -> str:
    """The text with everything that would steer a terminal as an escape, but for the characters in `keep`."""
    return "".join(
        character
        if character in keep or not (unicodedata.category(character) in ("Cc", "Cs") or character in _STEERING)
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


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


def messages(found: Iterable[Message]) -> None:
    """Print messages: with a line about each on a terminal, their bodies alone in a pipe."""
    for message in found:
        if sys.stdout.isatty():
            print(head(message))
            print(body(message.body))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(message.body + b"\n")
    sys.stdout.flush()


def queues(found: Sequence[Queue]) -> None:
    """Print queues, a row each."""
    _table(
        [
            {
                "name": queue.name,
                "messages": queue.messages,
                "owner": queue.owner,
                "creator": queue.creator,
                "created": f"{queue.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
            }
            for queue in found
        ],
        "no queues",
    )


def clients(found: Sequence[Client]) -> None:
    """Print clients, a row each."""
    _table(
        [
            {
                "name": client.name,
                "mode": client.mode,
                "online at": client.broker,
                "last seen": f"{client.last_seen_at.astimezone():%Y-%m-%d %H:%M:%S}",
            }
            for client in found
        ],
        "no clients",
    )


def _table(rows: Sequence[Mapping[str, object]], nothing: str) -> None:
    if rows:
        show_table(
            [
                {name: harmless(value) if isinstance(value, str) else value for name, value in row.items()}
                for row in rows
            ],
            as_json=False,
        )
        sys.stdout.flush()
    else:
        remark(nothing)


def result(text: str) -> None:
    """Print what a command found out."""
    print(text, flush=True)


def remark(sentence: str) -> None:
    """Tell a person something; who reads a pipe wants results alone."""
    if sys.stdout.isatty():
        print(sentence, flush=True)


def aside(text: str) -> None:
    """Print something about a result: with it on a terminal, but apart from it in a pipe."""
    if sys.stdout.isatty():
        result(text)
    else:
        warn(text)


def warn(sentence: str) -> None:
    """Tell what went wrong, or what happened without being asked for."""
    sys.stdout.flush()
    print(harmless(sentence), file=sys.stderr, flush=True)
