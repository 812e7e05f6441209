"""Completion of a line: the completion of the commands, in the spelling of the shell."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import typer
from typer._completion_classes import BashComplete

from stafette.cli.current_session import use_session
from stafette.cli.shell.grammar import ASSIGNMENT, SYNONYMS, Line, options_of
from stafette.cli.shell.shell_session import ShellSession
from stafette.cli.shell.state import unmet_need


class Completions(NamedTuple):
    """The completions of the word at the cursor."""

    prefix: str = ""
    """The part of the word that a candidate replaces."""
    candidates: tuple[str, ...] = ()
    """Complete words, with a space at the end except after ``name=``."""


def complete(text: str, session: ShellSession) -> Completions:
    """The completions at the cursor; `text` is the line before it."""
    *earlier, prefix = text.lstrip().split(" ")
    words = [word for word in earlier if word]
    with use_session(session):
        if not words:
            return _matching(prefix, [*session.possible_commands(), *(name for name in SYNONYMS if name != "?")])
        try:
            line = session.read(words)
        except typer.TyperException:
            return Completions()
        if unmet_need(line.path, session.state):
            return Completions()
        if assignment := ASSIGNMENT.fullmatch(prefix):
            return _matching(assignment["value"], _values(line, f"--{assignment['name']}", session))
        if line.path == ("send",) and not line.arguments:
            prefix = prefix.rpartition(",")[2]
        return _matching(prefix, [*_items(line, "", session), *_options(line, prefix, session)])


def _values(line: Line, option: str, session: ShellSession) -> list[str]:
    """The possible values of an option."""
    definition = options_of(line.command).get(option)
    if definition is None:
        return []
    if definition.is_flag:
        return ["yes", "no"]
    return _items(line._replace(arguments=[*line.arguments, option]), "", session)


def _options(line: Line, prefix: str, session: ShellSession) -> list[str]:
    """The options that the line does not have yet, with dashes if the word begins with one."""
    if "--" in line.arguments or (line.arguments[-1:] and _takes_value(line.arguments[-1], line.command)):
        return []
    options = [option for option in _items(line, "--", session) if option != "--help"]
    if prefix.startswith("-"):
        return options
    return ["as" if option == "--name" else f"{option.removeprefix('--')}=" for option in options]


def _takes_value(word: str, command: Any) -> bool:
    option = options_of(command).get(word)
    return option is not None and not option.is_flag


def _items(line: Line, incomplete: str, session: ShellSession) -> list[str]:
    """The completions from the definition of the command."""
    completer = BashComplete(cli=session.root, ctx_args={}, prog_name="", complete_var="")
    items = completer.get_completions([*line.path, *line.arguments], incomplete)
    return [str(item.value) if incomplete else shlex.quote(str(item.value)) for item in items]


def _matching(prefix: str, texts: list[str]) -> Completions:
    matches = (text for text in texts if text.startswith(prefix))
    return Completions(prefix, tuple(text if text.endswith("=") else f"{text} " for text in matches))
