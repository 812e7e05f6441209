"""The commands of `stafette` that use a broker, adapted for the shell.

They have the definitions of the command line without the options that choose a broker. A body may be several words.
Some commands get a function in front, for defaults that suit a person at a prompt.
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
from stafette.cli.shell.state import unmet_need

Callback = Callable[..., Any]


def _send(callback: Callback, queue: str, to: list[str] | None, **options: Any) -> None:
    """Accept several queues in one word, with commas."""
    first, *further = queue.split(",")
    callback(queue=first, to=[*further, *(to or [])], **options)


def _peek(callback: Callback, queue: str | None, **options: Any) -> None:
    """Use the default queue if the line names none."""
    callback(queue=queue or current().default_queue(options["sender"], options["context"]), **options)


def _receive(callback: Callback, queue: str | None, **options: Any) -> None:
    """Use the default queue if the line names none, and a lease, so that Ctrl-C loses no message."""
    session = current()
    queue = queue or session.default_queue(options["sender"], options["context"])
    session.state.last_received = callback(queue=queue, lease=True, **options)


SHARED: dict[str, Callback | None] = {"send": _send, "peek": _peek, "receive": _receive, "request": None}
SHARED_GROUPS = ("queue", "client")
QUEUE_OPTIONAL = ("peek", "receive")

DROPPED_OPTIONS = ("url", "name", "secret", "data", "lines", "lease")
"""The shell has its connection, standard input is its script, and its `receive` always uses a lease."""


class Group(TyperGroup):
    """A group that lists and completes only the commands that are possible now."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands that are possible now."""
        group = (self.name,) if self.name else ()
        state = current().state
        return [name for name in self.commands if unmet_need((*group, name), state) is None]


def root() -> Group:
    """The group of all commands of the shell."""
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for name in SHARED_GROUPS:
        definitions = load(name, COMMANDS[name]).commands
        adapted = {member: _adapt(command) for member, command in definitions.items()}
        commands[name] = Group(name=name, commands=adapted, help=COMMANDS[name].help)
    for name, wrapper in SHARED.items():
        commands[name] = _adapt(load(name, COMMANDS[name]), wrapper)
    return Group(name="", commands=commands, context_settings={"help_option_names": ["-h", "--help"]})


def _adapt(command: Any, wrapper: Callback | None = None) -> Any:
    command.params = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "argument" or parameter.name not in DROPPED_OPTIONS
    ]
    for parameter in command.params:
        if parameter.name == "body":
            parameter.nargs, parameter.metavar, parameter.callback = -1, "BODY", _join
            parameter.help = "The body; without it, the shell asks for it."
        elif parameter.name == "queue" and command.name in QUEUE_OPTIONAL:
            parameter.required = False
    if wrapper is not None:
        command.callback = partial(wrapper, command.callback)
    return command


def _join(context: Any, parameter: Any, words: tuple[str, ...] | None) -> str | None:
    return " ".join(words) if words else None
