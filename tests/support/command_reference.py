"""Every command with its flags, to compare pages with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load


def commands() -> dict[str, Any]:
    """Every command that can be given, by what one types."""

    def within(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", {})
        if not inner or command.invoke_without_command:
            yield name, command
        for word, found in inner.items():
            yield from within(f"{name} {word}", found)

    return {name: found for word, lazy in COMMANDS.items() for name, found in within(word, load(word, lazy))}


def flags(command: Any) -> dict[str, Any]:
    """The flags of a command with their defaults."""
    return {
        flag: option.default
        for option in command.params
        for flag in option.opts
        if flag.startswith("--") and not flag.endswith("-completion")  # Typer's own, of every group
    }
