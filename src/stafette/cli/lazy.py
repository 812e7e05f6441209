"""Commands that are imported when they are called: nobody who sends a message waits for the laboratory to load.

The table of commands carries their first sentences, so that even the help needs none of them.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Lazy(NamedTuple):
    """Where a command is, ``module:name`` of a function or of a Typer, and what its help says first."""

    place: str
    help: str


def lazy_group(commands: Mapping[str, Lazy]) -> type[TyperGroup]:
    """The class of a group that has these commands."""

    class Group(TyperGroup):
        """Has stand-ins for its commands until one is called."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._missing = dict(commands)
            for name, command in commands.items():
                self.commands[name] = TyperCommand(name, help=command.help)

        def list_commands(self, ctx: Any) -> list[str]:
            """In the order of the table, which is an order for people."""
            return list(self.commands)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Put the command itself in place before it is looked up to be called or completed."""
            if args and (command := self._missing.pop(args[0], None)):
                self.commands[args[0]] = load(args[0], command)
            return super().resolve_command(ctx, args)

    return Group


def load(name: str, command: Lazy) -> Any:
    """Import a command and make it one that can be called."""
    module, _, attribute = command.place.partition(":")
    with loading():
        found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        around = typer.Typer(add_completion=False)
        around.command(name)(found)
        found = around
    made = typer.main.get_command(found)
    made.name = name
    return made


@contextmanager
def loading() -> Iterator[None]:
    """Import without garbage collection: all of it stays, and to look for what could be freed takes the console a
    seventh of the time in which it loads."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
