"""Every command says what it does, and shows it with an example."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from stafette.cli.app import COMMANDS


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if getattr(command, "invoke_without_command", True):
        yield name, command
    for part, inner in getattr(command, "commands", {}).items():
        yield from leaves(f"{name} {part}", inner)


def commands() -> Iterator[tuple[str, Any]]:
    for name, lazy in COMMANDS.items():
        module, _, thing = lazy.place.partition(":")
        found = getattr(importlib.import_module(module), thing)
        if not isinstance(found, typer.Typer):
            app = typer.Typer()
            app.command(name)(found)
            found = app
        yield from leaves(name, get_command(found))


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_has_an_example(name: str, command: Any) -> None:
    assert command.help
    assert f"stafette {name}" in command.help.partition("Example:")[2]
