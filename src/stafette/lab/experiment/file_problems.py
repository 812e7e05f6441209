"""The problems of an experiment file in our own words: all of them, with their lines, in one error."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import pydantic

from stafette.database.masking import masked_text
from stafette.errors import InvalidRequest
from stafette.lab.experiment.toml_lines import Keys

LONGEST_VALUE = 60
"""Characters of a value that a message repeats."""

DISTRIBUTIONS = frozenset({"fixed", "uniform", "choice", "exponential"})
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
A_DISTRIBUTION = "it must be a number or a table such as { uniform = [100, 2000] }"


@dataclass(frozen=True)
class Problem:
    """One problem of a file."""

    keys: Keys
    """The path to it; positions in lists count from 0."""
    reason: str
    """A message that is complete without the path."""
    line: int | None = None
    """Its line in the file, from 1; None if the problem has no line."""

    @property
    def path(self) -> str:
        """The path as in a file."""
        return format_keys(self.keys)


class InvalidExperiment(InvalidRequest):
    """An experiment file that cannot be run, with all its problems."""

    def __init__(self, problems: Iterable[Problem], file: str | None = None) -> None:
        self.problems = sorted(problems, key=lambda problem: (problem.line or 0, problem.path))
        self.file = file
        super().__init__(self.problems, file)

    def __str__(self) -> str:
        return "\n".join(f"{self._location(problem.line)}{problem.reason}" for problem in self.problems)

    def _location(self, line: int | None) -> str:
        if self.file is None:
            return "" if line is None else f"line {line}: "
        return f"{self.file}: " if line is None else f"{self.file}:{line}: "


def format_keys(keys: Keys) -> str:
    """Keys as a path such as `faults.1.pause`: positions count from 1, and a key that is not plain is quoted."""
    return ".".join(
        str(key + 1) if isinstance(key, int) else key if _PLAIN_KEY.fullmatch(key) else f'"{key}"' for key in keys
    )


def table_name(keys: Keys) -> str:
    """A table for messages about its keys."""
    return f"[{format_keys(keys)}]" if keys else "the file"


def format_value(value: object) -> str:
    """A value as in TOML, shortened."""
    text = _toml(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(masked_text(value), ensure_ascii=False)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def format_unknown(noun: str, name: str, where: str, names: Sequence[str]) -> str:
    """A message that there is no such name, with a similar one or all names as a hint."""
    matches = difflib.get_close_matches(name, names, n=1)
    if matches:
        return f"there is no {noun} '{name}' {where}; did you mean '{matches[0]}'?"
    return f"there is no {noun} '{name}' {where}" + (f"; there are {', '.join(names)}" if names else "")


def invalid_value(keys: Keys, value: object, requirement: str) -> Problem:
    """The problem of a value that breaks a requirement; None: the value is missing."""
    if value is None:
        return Problem(keys, f"{format_keys(keys)} is not given; {requirement}")
    if isinstance(value, Mapping):
        return Problem(keys, f"{format_keys(keys)}: {requirement}")
    return Problem(keys, f"{format_keys(keys)} is {format_value(value)}; {requirement}")


KeysOf = Callable[[Keys], Sequence[str]]
"""Returns the keys that a table may have; none if they are not known."""

Fault = tuple[Keys, Mapping[str, Any]]
"""The rest of the path to an error of pydantic, and its details."""


def find_problems(error: pydantic.ValidationError, value: object, keys: Keys, keys_of: KeysOf) -> list[Problem]:
    """The errors of pydantic about the value at these keys, in our own words and one problem per cause."""
    faults = [(details["loc"], details) for details in error.errors(include_url=False)]
    return _find_problems(faults, value, keys, keys_of)


def _find_problems(faults: Sequence[Fault], value: object, keys: Keys, keys_of: KeysOf) -> list[Problem]:
    """Follow pydantic's path to the faults through the value itself. A step that the value does not have is the name of
    one alternative of a union."""
    problems: list[Problem] = []
    alternatives: list[Fault] = []
    for step, group in groupby(faults, key=lambda fault: fault[0][:1]):
        group_faults = list(group)
        if not step:
            problems += [_problem(details, keys, keys_of) for _, details in group_faults]
        elif step == ("[key]",):  # the messages of our own checks of names are complete
            problems += [Problem(keys, _requirement(details)) for _, details in group_faults]
        elif _has(value, step[0]):
            inner = cast(Any, value)[step[0]]
            problems += _find_problems(
                [(path[1:], details) for path, details in group_faults], inner, (*keys, step[0]), keys_of
            )
        elif all(_is_missing(fault) for fault in group_faults):
            problems.append(_missing_key(keys, step[0], value))
        else:
            alternatives += group_faults
    return problems + (_problems_of_alternatives(alternatives, value, keys, keys_of) if alternatives else [])


def _problems_of_alternatives(faults: Sequence[Fault], value: object, keys: Keys, keys_of: KeysOf) -> list[Problem]:
    """The problems of the alternative that fits the value best; if several do, one problem for all."""
    by_name = {
        name: [(path[1:], details) for path, details in group]
        for name, group in groupby(faults, key=lambda fault: str(fault[0][0]))
    }
    candidates = {name: group for name, group in by_name.items() if not any(map(_is_wrong_type, group))}
    if len(candidates) > 1:
        candidates = {name: group for name, group in candidates.items() if not any(map(_has_wrong_keys, group))}
    if len(candidates) == 1:
        return _find_problems(next(iter(candidates.values())), value, keys, keys_of)
    if any("Uniform" in name for name in by_name):
        return [Problem(keys, f"{format_keys(keys)} is {format_value(value)}; {A_DISTRIBUTION}")]
    return _find_problems(next(iter(by_name.values()))[:1], value, keys, keys_of)


def _has(value: object, step: str | int) -> bool:
    if isinstance(value, Mapping):
        return step in value
    return isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)


def _is_missing(fault: Fault) -> bool:
    path, details = fault
    return len(path) == 1 and details["type"] == "missing"


def _is_wrong_type(fault: Fault) -> bool:
    path, details = fault
    return not path and (details["type"].endswith(("_type", "_parsing")))


def _has_wrong_keys(fault: Fault) -> bool:
    path, details = fault
    return len(path) == 1 and details["type"] in ("missing", "extra_forbidden")


def _missing_key(keys: Keys, key: str | int, value: object) -> Problem:
    if isinstance(key, int):
        return invalid_value(keys, value, "it has too few values")
    return Problem((*keys, key), f"there is no '{key}' in {table_name(keys)}; it must be given")


_REQUIREMENTS: dict[str, str] = {
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


def _problem(details: Mapping[str, Any], keys: Keys, keys_of: KeysOf) -> Problem:
    if details["type"] == "extra_forbidden":
        table = keys[:-1]
        return Problem(keys, format_unknown("key", str(keys[-1]), f"in {table_name(table)}", keys_of(table)))
    return invalid_value(keys, details["input"], _requirement(details))


def _requirement(details: Mapping[str, Any]) -> str:
    pattern = _REQUIREMENTS.get(details["type"])
    if pattern is None:
        message = str(details["msg"])
        return message[:1].lower() + message[1:]
    return pattern.format(**{name: format_number(value) for name, value in details.get("ctx", {}).items()})


def format_number(value: object) -> str:
    """A number without a needless `.0`; anything else as it is."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


LineFinder = Callable[[Keys], int | None]
"""Returns the line of a key."""


def add_lines(problems: Iterable[Problem], line_of: LineFinder) -> list[Problem]:
    """The same problems, with their lines."""
    return [Problem(problem.keys, problem.reason, line_of(problem.keys)) for problem in problems]
