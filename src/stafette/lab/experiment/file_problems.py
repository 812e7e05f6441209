"""What is wrong with an experiment file, in our words: every problem, with its line, in one error."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import pydantic

from stafette.errors import InvalidRequest
from stafette.lab.experiment.toml_lines import Keys

LONGEST_VALUE = 60
"""Characters of a value that a sentence repeats; the rest can be read in the file."""

DISTRIBUTIONS = frozenset({"fixed", "uniform", "choice", "exponential"})
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
A_DISTRIBUTION = "it must be a number or a table such as { uniform = [100, 2000] }"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    keys: Keys
    """The way to it, places in lists counted from 0."""
    reason: str
    """A sentence that can stand alone."""
    line: int | None = None
    """Where it stands in the file, from 1; None when no line is to blame."""

    @property
    def path(self) -> str:
        """The way to it as a person writes it."""
        return dotted(self.keys)


class InvalidExperiment(InvalidRequest):
    """An experiment file that cannot be run, with all that is wrong with it."""

    def __init__(self, problems: Iterable[Problem], file: str | None = None) -> None:
        self.problems = sorted(problems, key=lambda problem: (problem.line or 0, problem.path))
        self.file = file
        super().__init__(self.problems, file)

    def __str__(self) -> str:
        return "\n".join(f"{self._place(problem.line)}{problem.reason}" for problem in self.problems)

    def _place(self, line: int | None) -> str:
        if self.file is None:
            return "" if line is None else f"line {line}: "
        return f"{self.file}: " if line is None else f"{self.file}:{line}: "


def dotted(keys: Keys) -> str:
    """`faults.1.pause`: people count from 1, and a key that is not plain stands in quotes."""
    return ".".join(
        str(key + 1) if isinstance(key, int) else key if _PLAIN_KEY.fullmatch(key) else f'"{key}"' for key in keys
    )


def table_name(keys: Keys) -> str:
    """Where a key is missing or too many."""
    return f"[{dotted(keys)}]" if keys else "the file"


def shown(value: object) -> str:
    """A value as the file writes it, more or less."""
    text = _toml(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def unknown(what: str, name: str, where: str, known: Sequence[str]) -> str:
    """There is no such thing; perhaps another was meant."""
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"there is no {what} '{name}' {where}; did you mean '{near[0]}'?"
    return f"there is no {what} '{name}' {where}" + (f"; known are {', '.join(known)}" if known else "")


def out_of_place(keys: Keys, value: object, must: str) -> Problem:
    """A value that cannot be; None is one that is not there, and should be."""
    if value is None:
        return Problem(keys, f"{dotted(keys)} is not given; {must}")
    if isinstance(value, Mapping):
        return Problem(keys, f"{dotted(keys)}: {must}")
    return Problem(keys, f"{dotted(keys)} is {shown(value)}; {must}")


KnownKeys = Callable[[Keys], Sequence[str]]
"""Which keys a table may have; none when that is not known."""

Fault = tuple[Keys, Mapping[str, Any]]
"""The rest of the way to a fault that pydantic found, and what it says about it."""


def worded(error: pydantic.ValidationError, value: object, keys: Keys, known: KnownKeys) -> list[Problem]:
    """What pydantic found in a value that stands at these keys, in our words and one problem per cause."""
    faults = [(details["loc"], details) for details in error.errors(include_url=False)]
    return _worded(faults, value, keys, known)


def _worded(faults: Sequence[Fault], value: object, keys: Keys, known: KnownKeys) -> list[Problem]:
    """Follow pydantic's way to the faults through the value itself: a step that the value has no place for is the name
    of one alternative of several."""
    problems: list[Problem] = []
    alternatives: list[Fault] = []
    for step, group in groupby(faults, key=lambda fault: fault[0][:1]):
        here = list(group)
        if not step:
            problems += [_plain(details, keys, known) for _, details in here]
        elif step == ("[key]",):  # our own checks of names say all there is to say
            problems += [Problem(keys, _must(details)) for _, details in here]
        elif _has(value, step[0]):
            inner = cast(Any, value)[step[0]]
            problems += _worded([(way[1:], details) for way, details in here], inner, (*keys, step[0]), known)
        elif all(_missing(fault) for fault in here):
            problems.append(_absent(keys, step[0], value))
        else:
            alternatives += here
    return problems + (_chosen(alternatives, value, keys, known) if alternatives else [])


def _chosen(faults: Sequence[Fault], value: object, keys: Keys, known: KnownKeys) -> list[Problem]:
    """Complain about the alternative that was meant; when that cannot be told, say one thing about all."""
    by_name = {
        name: [(way[1:], details) for way, details in group]
        for name, group in groupby(faults, key=lambda fault: str(fault[0][0]))
    }
    meant = {name: group for name, group in by_name.items() if not any(map(_wrong_kind, group))}
    if len(meant) > 1:
        meant = {name: group for name, group in meant.items() if not any(map(_wrong_shape, group))}
    if len(meant) == 1:
        return _worded(next(iter(meant.values())), value, keys, known)
    if any("Uniform" in name for name in by_name):
        return [Problem(keys, f"{dotted(keys)} is {shown(value)}; {A_DISTRIBUTION}")]
    return _worded(next(iter(by_name.values()))[:1], value, keys, known)


def _has(value: object, step: str | int) -> bool:
    if isinstance(value, Mapping):
        return step in value
    return isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)


def _missing(fault: Fault) -> bool:
    way, details = fault
    return len(way) == 1 and details["type"] == "missing"


def _wrong_kind(fault: Fault) -> bool:
    way, details = fault
    return not way and (details["type"].endswith(("_type", "_parsing")))


def _wrong_shape(fault: Fault) -> bool:
    way, details = fault
    return len(way) == 1 and details["type"] in ("missing", "extra_forbidden")


def _absent(keys: Keys, key: str | int, value: object) -> Problem:
    if isinstance(key, int):
        return out_of_place(keys, value, "it has too few values")
    return Problem((*keys, key), f"there is no '{key}' in {table_name(keys)}; it must be given")


_MUST: dict[str, str] = {
    "greater_than_equal": "it must be at least {ge}",
    "greater_than": "it must be more than {gt}",
    "less_than_equal": "it must be at most {le}",
    "less_than": "it must be less than {lt}",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a finite number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "string_type": "it must be a text in quotes",
    "string_too_short": "it must not be empty",
    "string_too_long": "it must have at most {max_length} characters",
    "string_pattern_mismatch": "it must match {pattern}",
    "literal_error": "it must be {expected}",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a table",
    "model_type": "it must be a table",
    "model_attributes_type": "it must be a table",
    "too_short": "it must have at least {min_length} of them",
    "too_long": "it must have at most {max_length} of them",
    "value_error": "{error}",
}


def _plain(details: Mapping[str, Any], keys: Keys, known: KnownKeys) -> Problem:
    if details["type"] == "extra_forbidden":
        table = keys[:-1]
        return Problem(keys, unknown("key", str(keys[-1]), f"in {table_name(table)}", known(table)))
    return out_of_place(keys, details["input"], _must(details))


def _must(details: Mapping[str, Any]) -> str:
    pattern = _MUST.get(details["type"])
    if pattern is None:
        message = str(details["msg"])
        return message[:1].lower() + message[1:]
    return pattern.format(**{name: number_text(value) for name, value in details.get("ctx", {}).items()})


def number_text(value: object) -> str:
    """A number without a needless `.0`; anything else as it is."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


Located = Callable[[Keys], int | None]
"""Finds the line of a key."""


def located(problems: Iterable[Problem], line_of: Located) -> list[Problem]:
    """The same problems, with their lines."""
    return [Problem(problem.keys, problem.reason, line_of(problem.keys)) for problem in problems]
