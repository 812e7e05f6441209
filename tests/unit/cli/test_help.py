"""Every command says what it does, and shows it with an example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if getattr(command, "invoke_without_command", True):
        yield name, command
    for part, inner in getattr(command, "commands", {}).items():
        yield from leaves(f"{name} {part}", inner)


def commands() -> Iterator[tuple[str, Any]]:
    for name, lazy in COMMANDS.items():
        yield from leaves(name, load(name, lazy))


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_has_an_example(name: str, command: Any) -> None:
    assert command.help
    assert f"stafette {name}" in command.help.partition("Example:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_no_options_that_are_not_ours(name: str) -> None:
    options = {text for parameter in load(name, COMMANDS[name]).params for text in parameter.opts}
    assert not {option for option in options if "completion" in option}
