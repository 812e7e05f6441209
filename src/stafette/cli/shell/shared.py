"""The commands of `stafette` that talk to a broker, as the shell has them.

They are the very definitions of the command line, but for the options that name a broker. A body may be several words,
and where a person at a prompt expects more or safer than a script does, a function here stands before the command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load
from stafette.cli.shell.commands import app
from stafette.cli.shell.shell_session import current
from stafette.cli.shell.state import unmet

Callback = Callable[..., Any]


def _send(callback: Callback, queue: str, to: list[str] | None, **options: Any) -> None:
    """Send to several queues also when they are one word, with commas."""
    first, *others = queue.split(",")
    callback(queue=first, to=[*others, *(to or [])], **options)


def _peek(callback: Callback, queue: str | None, **options: Any) -> None:
    """Need no queue."""
    callback(queue=queue or current().default_queue(options["sender"], options["context"]), **options)


def _receive(callback: Callback, queue: str | None, **options: Any) -> None:
    """Need no queue, and remove a message only when it has been shown: Ctrl-C does not lose it."""
    session = current()
    queue = queue or session.default_queue(options["sender"], options["context"])
    session.state.last = callback(queue=queue, lease=True, **options)


SHARED: dict[str, Callback | None] = {"send": _send, "peek": _peek, "receive": _receive, "request": None}
SHARED_GROUPS = ("queue", "client")
NEED_NO_QUEUE = ("peek", "receive")

DROPPED_OPTIONS = ("url", "name", "secret", "data", "lines", "lease")
"""Which broker and as whom is settled, standard input is the shell's, and `receive` always works under a lease."""


class Group(TyperGroup):
    """Commands of which only those are listed and completed that are possible now."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the possible ones."""
        group = (self.name,) if self.name else ()
        state = current().state
        return [name for name in self.commands if unmet((*group, name), state) is None]


def root() -> Group:
    """All commands of the shell, to parse a line with."""
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for name in SHARED_GROUPS:
        members = load(name, COMMANDS[name]).commands
        inner = {word: _adapt(command) for word, command in members.items()}
        commands[name] = Group(name=name, commands=inner, help=COMMANDS[name].help)
    for name, before in SHARED.items():
        commands[name] = _adapt(load(name, COMMANDS[name]), before)
    return Group(name="", commands=commands, context_settings={"help_option_names": ["-h", "--help"]})


def _adapt(command: Any, before: Callback | None = None) -> Any:
    command.params = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "argument" or parameter.name not in DROPPED_OPTIONS
    ]
    for parameter in command.params:
        if parameter.name == "body":
            parameter.nargs, parameter.metavar, parameter.callback = -1, "BODY", _join
            parameter.help = "The body; without one it is asked for."
        elif parameter.name == "queue" and command.name in NEED_NO_QUEUE:
            parameter.required = False
    if before is not None:
        command.callback = partial(before, command.callback)
    return command


def _join(context: Any, parameter: Any, words: tuple[str, ...] | None) -> str | None:
    return " ".join(words) if words else None
