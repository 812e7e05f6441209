"""The shell session in which a command runs, and whose connection it uses; there is none on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stafette.cli.shell.shell_session import ShellSession

Kind = Literal["queue", "client"]
"""Things whose names can be completed."""

_current: ContextVar[ShellSession | None] = ContextVar("session", default=None)


def current_session() -> ShellSession | None:
    """The session in which the command runs; None on the command line."""
    return _current.get()


@contextmanager
def use_session(session: ShellSession) -> Iterator[None]:
    """Run commands in a session."""
    token = _current.set(session)
    try:
        yield
    finally:
        _current.reset(token)
