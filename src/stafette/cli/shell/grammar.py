r"""Parses a typed line into arguments for a command of `stafette` or of the shell.

A line is split and quoted as in a Unix shell; a command that begins with a backslash (``\q``) keeps it. Three spellings
exist only here, and are rewritten for the command: an alias for a command, ``name=value`` for
``--name=value``, and ``as NAME`` for ``--name NAME``. After ``--`` nothing is rewritten.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

ALIASES = {
    "queues": ["queue", "ls"],
    "waiting": ["queue", "ls", "--waiting"],
    "clients": ["client", "ls"],
    "create": ["queue", "create"],
    "delete": ["queue", "rm", "--yes"],
}
SYNONYMS = {r"\q": ["quit"], "exit": ["quit"], "?": ["help"]}
"""Aliases that `help` does not list, because it lists the full name."""

ASSIGNMENT = re.compile(r"(?P<name>[a-z][a-z-]*)=(?P<value>.*)", re.DOTALL)

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


class Usage(typer.TyperException):
    """A line that cannot be parsed, or a command that is not possible now."""

    exit_code = 2


class Line(NamedTuple):
    """A parsed line; the command itself parses its arguments."""

    name: str
    """The command as it was typed."""
    path: tuple[str, ...]
    """The name of the command, not of an alias, after that of its group."""
    command: Any
    """The command's definition."""
    arguments: list[str]
    """The arguments of the command."""


def split(text: str) -> list[str]:
    """The words of a line; none when it is empty or a comment."""
    text = text.strip()
    if not text or text.startswith("#"):
        return []
    name, _, rest = text.partition(" ")
    try:
        return [name, *shlex.split(rest)] if name.startswith("\\") else shlex.split(text)
    except ValueError as error:
        reason = (
            "a backslash at the end escapes nothing" if "escape" in str(error) else "a quotation mark is not closed"
        )
        raise Usage(f"{reason}; put \\ before it to use it as a character") from error


def read(words: list[str], root: Any) -> Line:
    """Find the command at the start of the words, and rewrite the remaining words for it."""
    arguments = [*(ALIASES | SYNONYMS).get(words[0], words[:1]), *words[1:]]
    command, path = root, []
    while arguments and (inner := getattr(command, "commands", {}).get(arguments[0])):
        command = inner
        path.append(arguments.pop(0))
    if command is root:
        raise Usage(f"there is no command {words[0]}; `help` lists the commands that are possible now")
    return Line(words[0], tuple(path), command, list(_rewrite(words[0], arguments, command)))


def options_of(command: Any) -> dict[str, Any]:
    """The options of a command, by their spelling."""
    return {text: option for option in command.params if option.param_type_name == "option" for text in option.opts}


def _rewrite(name: str, words: list[str], command: Any) -> Iterator[str]:
    options = options_of(command)
    previous = ""
    for position, word in enumerate(words):
        if word == "--":
            yield from words[position:]
            return
        is_value = previous in options and not options[previous].is_flag
        if not is_value and word == "as" and "--name" in options:
            yield "--name"
        elif not is_value and (assignment := ASSIGNMENT.fullmatch(word)):
            yield from _assign(name, assignment["name"], assignment["value"], options)
        else:
            yield word
        previous = word


def _assign(command: str, name: str, value: str, options: dict[str, Any]) -> Iterator[str]:
    option = options.get(f"--{name}")
    if option is None:
        names = ", ".join(text[2:] for text in options if text.startswith("--"))
        raise Usage(f"{command} has no option {name}; it has {names or 'none'}; words after -- are not options")
    if not value:
        raise Usage(f"{name}= needs a value")
    if not option.is_flag:
        yield f"--{name}={value}"
    elif value.lower() in YES:
        yield f"--{name}"
    elif value.lower() not in NO:
        raise Usage(f"{name}={value} is not valid; use yes or no")
