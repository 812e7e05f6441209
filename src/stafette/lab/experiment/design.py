"""Which points an experiment has, and in which order they are run.

Each level is set in the tables of the file by its path, and the result is checked like any file. So a point that cannot
be run is reported before the first run starts.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stafette.database.masking import masked_tables
from stafette.lab.experiment.file_checks import Lookup, group_keys, resolve, unfold
from stafette.lab.experiment.file_problems import InvalidExperiment, Problem, format_number
from stafette.lab.experiment.file_tables import GROUP_KEYS, Design, Experiment, Factor, known_keys
from stafette.lab.experiment.toml_lines import Keys

MOST_POINTS = 4096
"""All points are checked before the first run; nobody runs more."""

LONGEST_LABEL = 160
"""A label is part of a folder's name, which file systems limit to 255 bytes."""

LONGEST_LEVEL = 40

SETTABLE = ("system", "preload", "run", "clients", "faults")
"""The tables that may vary; the others are about the whole experiment."""

Level = str | int | float | bool


@dataclass(frozen=True)
class Point:
    """One combination of levels."""

    label: str
    """Unique within the experiment, and fit for a folder's name."""
    levels: dict[str, Level]
    """By factor; a level that is a table or list is represented by its text."""
    experiment: Experiment
    """With the levels set, and the design single."""


def points(experiment: Experiment, *, lookup: Lookup | None = None) -> list[Point]:
    """All points, the last factor varying fastest; raises InvalidExperiment if one of them cannot be run.

    With a lookup of behaviours, these check their parameters too; `read` and `parse` have done so.
    """
    design = experiment.design
    tables = unfold(experiment)
    del tables["design"]
    problems = [*_problems_of_kind(design), *_problems_of_factors(design, tables, lookup)]
    if problems:
        raise InvalidExperiment(problems)
    if not design.factors:
        return [Point("single", {}, experiment)]
    points_or_problems = [_point(design, tables, choices, lookup) for choices in _combinations(design)]
    problems_by_reason = {
        (problem.keys, reason): problem
        for point in reversed(points_or_problems)
        if isinstance(point, list)
        for problem, reason in point
    }
    if problems_by_reason:
        raise InvalidExperiment(problems_by_reason.values())
    return [point for point in points_or_problems if isinstance(point, Point)]


def order(
    points: Sequence[Point], repetitions: int, seed: int, kind: Literal["random", "given"] = "random"
) -> list[tuple[Point, int]]:
    """Every point with each repetition, from 1: shuffled, or all points in their order for each repetition."""
    runs = [(point, repetition) for repetition in range(1, repetitions + 1) for point in points]
    if kind == "random":
        random.Random(f"{seed}:order").shuffle(runs)  # noqa: S311
    return runs


@dataclass(frozen=True)
class _Choice:
    """One level of a factor."""

    level: Any
    text: str
    settings: dict[str, Any]
    """The values it sets, by path."""


def _choices(factor: Factor) -> list[_Choice]:
    texts = _level_texts(factor.levels)
    return [_Choice(level, texts[position], factor.settings(position)) for position, level in enumerate(factor.levels)]


def _combinations(design: Design) -> Iterator[dict[str, _Choice]]:
    """One level of each factor."""
    for choices in itertools.product(*map(_choices, design.factors.values())):
        yield dict(zip(design.factors, choices, strict=True))


def _point(
    design: Design, tables: Mapping[str, Any], choices: Mapping[str, _Choice], lookup: Lookup | None
) -> Point | list[tuple[Problem, str]]:
    """The point, or its problems, each with the reason without the label, which other points may share."""
    label = ",".join(f"{name}={choice.text}" for name, choice in choices.items())
    point_tables = copy.deepcopy(dict(tables))
    for choice in choices.values():
        for path, value in choice.settings.items():
            _set_value(point_tables, _keys(path), value)
    experiment, problems = resolve(point_tables, lookup)
    if experiment is None:
        return [
            (Problem(_keys_of_level(design, problem.keys), f"with {label}: {problem.reason}"), problem.reason)
            for problem in problems
        ]
    levels = {
        name: masked_tables(choice.level) if isinstance(choice.level, Level) else choice.text
        for name, choice in choices.items()
    }
    return Point(_shorten(label, LONGEST_LABEL), levels, experiment)


def _set_value(tables: Any, keys: Keys, value: object) -> None:
    for key in keys[:-1]:
        tables = tables[key]
    tables[keys[-1]] = copy.deepcopy(value)


def _keys_of_level(design: Design, keys: Keys) -> Keys:
    """The keys of the values of the factor that sets `keys`; else the levels of the only factor."""
    setters = [
        (name, path)
        for name, factor in design.factors.items()
        for path in factor.set
        if _keys(path) == keys[: len(_keys(path))]
    ]
    names = {name for name, _ in setters} or set(design.factors)
    if len(names) != 1:
        return ("design", "factors")
    name = names.pop()
    if setters and isinstance(design.factors[name].set, dict):
        return _set_keys(name, setters[0][1])
    return ("design", "factors", name, "levels")


def _set_keys(name: str, *path: str) -> Keys:
    return ("design", "factors", name, "set", *path)


def _problems_of_kind(design: Design) -> Iterator[Problem]:
    """Problems with the number of factors and levels."""
    number, keys = len(design.factors), ("design", "kind")
    if design.kind == "single" and number:
        yield Problem(keys, 'a single design has no factors; set design.kind to "sweep", "factorial" or "2k"')
    if design.kind != "single" and not number:
        kind = "sweep" if design.kind == "sweep" else f"{design.kind} design"
        yield Problem(keys, f"a {kind} needs a factor; add [design.factors.NAME]")
    if design.kind == "sweep" and number > 1:
        yield Problem(keys, f'a sweep has one factor, not {number}; set design.kind to "factorial"')
    for name, factor in design.factors.items():
        if design.kind == "2k" and len(factor.levels) != 2:
            reason = f"a 2k design has two levels of each factor, not {len(factor.levels)} as {name} has"
            yield Problem(("design", "factors", name, "levels"), reason)
    count = math.prod(len(factor.levels) for factor in design.factors.values())
    if count > MOST_POINTS:
        yield Problem(("design", "factors"), f"the design has {count} points; take at most {MOST_POINTS}")


def _problems_of_factors(design: Design, tables: Mapping[str, Any], lookup: Lookup | None) -> Iterator[Problem]:
    """Problems with what the factors set, and levels that do not differ."""
    setters: dict[str, str] = {}
    for name, factor in design.factors.items():
        lists = list(_problems_of_lists(name, factor))
        if len(factor.levels) <= MOST_POINTS:  # more are a problem already, and comparing them takes long
            yield from lists or _problems_of_levels(name, factor)
        for path in factor.set:
            keys = _set_keys(name, path) if isinstance(factor.set, dict) else _set_keys(name)
            if path in setters:
                yield Problem(keys, f"{name} sets '{path}', but {setters[path]} does so already; let one of them do it")
            elif not _is_settable(tables, _keys(path), lookup):
                matches = difflib.get_close_matches(path, _settable(tables, lookup), n=1)
                hint = f"; did you mean '{matches[0]}'?" if matches else ", or it cannot vary"
                yield Problem(keys, f"{name} sets '{path}', but there is no such key{hint}")
            setters.setdefault(path, name)


def _problems_of_lists(name: str, factor: Factor) -> Iterator[Problem]:
    """Problems of a factor that lists values for each key: there must be one for each level."""
    levels = len(factor.levels)
    for path, values in factor.set.items() if isinstance(factor.set, dict) else ():
        if len(values) != levels:
            reason = (
                f"{name} has {_format_count(levels, 'level')}, but {_format_count(len(values), 'value')} for '{path}'"
            )
            yield Problem(_set_keys(name, path), f"{reason}; give one for each level")


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _problems_of_levels(name: str, factor: Factor) -> Iterator[Problem]:
    settings = [factor.settings(position) for position in range(len(factor.levels))]
    for position, level in enumerate(factor.levels):
        if level in factor.levels[:position]:
            reason = f"{name} has the level {_format_level(level)} twice; every level must differ"
            yield Problem(("design", "factors", name, "levels"), reason)
        elif settings[position] in settings[:position]:
            other = factor.levels[settings.index(settings[position])]
            levels = f"{_format_level(other)} and {_format_level(level)}"
            reason = f"{name} sets the same values at the levels {levels}; they must differ"
            yield Problem(_set_keys(name), reason)


def _is_settable(tables: Mapping[str, Any], keys: Keys, lookup: Lookup | None) -> bool:
    *table_keys, last = keys
    if not table_keys or table_keys[0] not in SETTABLE or keys == ("run", "repetitions"):
        return False
    table: Any = tables
    for key in table_keys:
        table = table[key] if _has_key(table, key) else None
    if not isinstance(table, Mapping):
        return False
    if len(table_keys) == 2 and table_keys[0] == "clients":
        keys_of_group = _keys_of_group(table, lookup)
        return keys_of_group is None or last in keys_of_group
    return last in known_keys(tuple(table_keys)) or (len(table_keys) > 2 and last in table)


def _has_key(table: Any, key: str | int) -> bool:
    if isinstance(key, int):
        return isinstance(table, list) and 0 <= key < len(table)
    return isinstance(table, Mapping) and key in table


def _keys_of_group(group: Mapping[str, Any], lookup: Lookup | None) -> tuple[str, ...] | None:
    """The keys that [clients.NAME] may have; None without a lookup."""
    return None if lookup is None else group_keys(lookup(group["behaviour"]))


def _settable(tables: Mapping[str, Any], lookup: Lookup | None) -> list[str]:
    """All paths that a factor may set, for hints."""
    plain = [f"{table}.{key}" for table in SETTABLE[:3] for key in known_keys((table,)) if key != "repetitions"]
    return plain + [
        f"clients.{name}.{key}"
        for name, group in tables["clients"].items()
        for key in _keys_of_group(group, lookup) or GROUP_KEYS
    ]


def _keys(path: str) -> Keys:
    """The keys of a path; `faults.1.seconds` counts faults from 1."""
    root, *rest = path.split(".")
    return (root, *(int(part) - 1 if root == "faults" and part.isdecimal() else part for part in rest))


def _level_texts(levels: Sequence[Any]) -> list[str]:
    """A text for each level; equal texts get a number."""
    texts = [_shorten(_format_level(level), LONGEST_LEVEL) for level in levels]
    return [f"{text}-{number}" if texts.count(text) > 1 else text for number, text in enumerate(texts, 1)]


def _format_level(level: object) -> str:
    """A level as a part of a folder's name: `200`, `true`, `uniform-100-2000`."""
    if isinstance(level, Mapping):
        return "-".join(f"{_format_level(key)}-{_format_level(value)}" for key, value in level.items())
    if isinstance(level, list):
        return "-".join(map(_format_level, level))
    if isinstance(level, bool):
        return str(level).lower()
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", format_number(masked_tables(level))) or "none"


def _shorten(text: str, longest: int) -> str:
    """The beginning of a long text, and a hash of all of it."""
    return text if len(text) <= longest else f"{text[: longest - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
