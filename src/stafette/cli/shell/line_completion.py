"""What could be typed next: the commands' own completion, in the spellings of the shell."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import typer
from typer._completion_classes import BashComplete

from stafette.cli.current_session import within
from stafette.cli.shell.grammar import ASSIGNMENT, SYNONYMS, Line, options_of
from stafette.cli.shell.shell_session import ShellSession
from stafette.cli.shell.state import unmet


class Completions(NamedTuple):
    """What the word at the cursor may become."""

    typed: str = ""
    """The part of the word that is replaced."""
    candidates: tuple[str, ...] = ()
    """An option is complete without the space that follows other words."""


def complete(before: str, session: ShellSession) -> Completions:
    """What may stand at the cursor, after what stands before it."""
    *earlier, typed = before.lstrip().split(" ")
    words = [word for word in earlier if word]
    with within(session):
        if not words:
            return _fitting(typed, [*session.possible(), *(name for name in SYNONYMS if name != "?")])
        try:
            line = session.read(words)
        except typer.TyperException:
            return Completions()
        if unmet(line.path, session.state):
            return Completions()
        if assignment := ASSIGNMENT.fullmatch(typed):
            return _fitting(assignment["value"], _values(line, f"--{assignment['name']}", session))
        if line.path == ("send",) and not line.arguments:
            typed = typed.rpartition(",")[2]
        return _fitting(typed, [*_items(line, "", session), *_options(line, typed, session)])


def _values(line: Line, option: str, session: ShellSession) -> list[str]:
    """What an option may be set to."""
    definition = options_of(line.command).get(option)
    if definition is None:
        return []
    if definition.is_flag:
        return ["yes", "no"]
    return _items(line._replace(arguments=[*line.arguments, option]), "", session)


def _options(line: Line, typed: str, session: ShellSession) -> list[str]:
    """The options that are not given yet, with dashes if that is how the word begins."""
    if "--" in line.arguments or (line.arguments[-1:] and _takes_value(line.arguments[-1], line.command)):
        return []
    options = [option for option in _items(line, "--", session) if option != "--help"]
    if typed.startswith("-"):
        return options
    return ["as" if option == "--name" else f"{option.removeprefix('--')}=" for option in options]


def _takes_value(word: str, command: Any) -> bool:
    option = options_of(command).get(word)
    return option is not None and not option.is_flag


def _items(line: Line, incomplete: str, session: ShellSession) -> list[str]:
    """What the command's definition says."""
    machinery = BashComplete(cli=session.root, ctx_args={}, prog_name="", complete_var="")
    items = machinery.get_completions([*line.path, *line.arguments], incomplete)
    return [str(item.value) if incomplete else shlex.quote(str(item.value)) for item in items]


def _fitting(typed: str, texts: list[str]) -> Completions:
    fitting = (text for text in texts if text.startswith(typed))
    return Completions(typed, tuple(text if text.endswith("=") else f"{text} " for text in fitting))
