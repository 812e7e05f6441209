r"""What a typed line says: a command, words, and options as ``name=value``.

::

    line    =  command { word | option } [ "--" { word } ]
    option  =  name "=" value              name: small letters and "-"

Words are split and quoted as in a shell. After ``--`` nothing is an option any more. A command that begins with a
backslash (``\q``) keeps it.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stafette.errors import InvalidRequest

_OPTION = re.compile(r"(?P<name>[a-z][a-z-]*)=(?P<value>.*)", re.DOTALL)

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


class Usage(InvalidRequest):
    """A line that does not say what a command wants to know."""


@dataclass(frozen=True)
class Line:
    """A line, taken apart."""

    command: str
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


def parse(text: str) -> Line | None:
    """Take a line apart; None when it says nothing, or only a comment."""
    text = text.strip()
    if not text or text.startswith("#"):
        return None
    command, _, rest = text.partition(" ")
    if not command.startswith("\\"):
        command, *pieces = _split(text)
    else:
        pieces = _split(rest)
    words: list[str] = []
    options: dict[str, str] = {}
    for position, piece in enumerate(pieces):
        if piece == "--":
            words += pieces[position + 1 :]
            break
        found = _OPTION.fullmatch(piece)
        if found is None:
            words.append(piece)
        elif found["name"] in options:
            raise Usage(f"the option {found['name']} is given twice; write it once")
        else:
            options[found["name"]] = found["value"]
    return Line(command, tuple(words), options)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        what = "a backslash at the end escapes nothing" if "escape" in str(error) else "a quotation mark is not closed"
        raise Usage(f"{what}; put \\ before it if it is meant as it is") from error


# What the value of an option may be


@dataclass(frozen=True)
class Kind:
    """How the value of an option is read, and what it could be completed with."""

    read: Callable[[str, str], object]
    """From the option's name and the text after the `=`."""
    shown: str
    """What help shows after the `=`."""
    choices: tuple[str, ...] = ()
    names: str = ""
    """What it names, if it does: a queue or a client."""


def _text(name: str, value: str) -> str:
    if not value:
        raise Usage(f"{name}= wants a value after it")
    return value


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise Usage(f"{name}={value} is not a whole number") from error


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError as error:
        raise Usage(f"{name}={value} is not a number of seconds") from error
    if not (math.isfinite(seconds) and seconds >= 0):
        raise Usage(f"{name}={value} is not a number of seconds from 0 on")
    return seconds


def _yes(name: str, value: str) -> bool:
    if value.lower() not in YES + NO:
        raise Usage(f"{name}={value} is neither yes nor no")
    return value.lower() in YES


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if value not in choices:
            raise Usage(f"{name}={value} is not one of {', '.join(choices)}")
        return value

    return read


TEXT = Kind(_text, "TEXT")
WHOLE = Kind(_whole, "NUMBER")
SECONDS = Kind(_seconds, "SECONDS")
YES_NO = Kind(_yes, "yes|no", ("yes", "no"))
QUEUE = Kind(_text, "QUEUE", names="queue")
CLIENT = Kind(_text, "CLIENT", names="client")


def choice(*choices: str) -> Kind:
    """One of these words."""
    return Kind(_one_of(*choices), "|".join(choices), choices)


def read_options(line: Line, kinds: Mapping[str, Kind]) -> dict[str, object]:
    """The options' values, under names that Python takes; refuses those the command does not have."""
    for name in line.options:
        if name not in kinds:
            known = f"known are {', '.join(kinds)}" if kinds else "it has none"
            raise Usage(f"{line.command} has no option {name}; {known}; words after -- are not read as options")
    return {name.replace("-", "_"): kinds[name].read(name, value) for name, value in line.options.items()}


def seconds(word: str) -> float:
    """A word that says for how long."""
    return _seconds("seconds", word)
