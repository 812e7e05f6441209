"""Commands that are imported when they are called, so that `send` does not wait for the laboratory to load.

The table of commands has the first line of each help text, so that `stafette --help` imports none of them.
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
    """Where a command is defined, ``module:name`` of a function or of a Typer, and the first line of its help."""

    target: str
    help: str


def lazy_group(commands: Mapping[str, Lazy]) -> type[TyperGroup]:
    """Make the class of a group with these commands."""

    class Group(TyperGroup):
        """A group with placeholders, each replaced by its command when that is called."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._unloaded = dict(commands)
            for name, command in commands.items():
                self.commands[name] = TyperCommand(name, help=command.help)

        def list_commands(self, ctx: Any) -> list[str]:
            """Names in the order of the table, not in alphabetical order."""
            return list(self.commands)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Load the command before it is looked up to be called or completed."""
            if args and (command := self._unloaded.pop(args[0], None)):
                self.commands[args[0]] = load(args[0], command)
            return super().resolve_command(ctx, args)

    return Group


def load(name: str, command: Lazy) -> Any:
    """Import a command, so that it can be called."""
    module, _, attribute = command.target.partition(":")
    with without_gc():
        definition = getattr(importlib.import_module(module), attribute)
    if not isinstance(definition, typer.Typer):
        wrapper = typer.Typer(add_completion=False)
        wrapper.command(name)(definition)
        definition = wrapper
    loaded = typer.main.get_command(definition)
    loaded.name = name
    return loaded


@contextmanager
def without_gc() -> Iterator[None]:
    """Import without garbage collection: modules stay in memory, and collecting takes a seventh of the load time of the
    web console."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
