"""The session of the shell that a command belongs to: it uses the connection of that. The command line has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stafette.cli.shell.shell_session import ShellSession

Kind = Literal["queue", "client"]
"""What has a name that can be completed."""

_current: ContextVar[ShellSession | None] = ContextVar("session", default=None)


def current_session() -> ShellSession | None:
    """The session that the running command belongs to; None on the command line."""
    return _current.get()


@contextmanager
def within(session: ShellSession) -> Iterator[None]:
    """Let commands belong to a session."""
    token = _current.set(session)
    try:
        yield
    finally:
        _current.reset(token)
