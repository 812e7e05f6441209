"""Which points an experiment has, and in which order they are run.

A level is put into the tables of the file by its path, and the outcome is checked like any file, so that a point that
cannot be run is found before the first one starts.
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
from pathlib import Path
from typing import Any, Literal

from stafette.lab.experiment.file_checks import Lookup, group_keys, lookup_in, resolve, unfolded
from stafette.lab.experiment.file_problems import InvalidExperiment, Problem, number_text
from stafette.lab.experiment.file_tables import GROUP_KEYS, Design, Experiment, Factor, known_keys
from stafette.lab.experiment.toml_lines import Keys

MOST_POINTS = 4096
"""All are made and checked before the first is run; nobody runs more."""

LONGEST_LABEL = 160
"""A label is part of a folder's name, which file systems hold to 255 bytes."""

LONGEST_LEVEL = 40

SETTABLE = ("system", "preload", "run", "clients", "faults")
"""The tables that may vary; the rest is about the experiment as a whole."""

Level = str | int | float | bool


@dataclass(frozen=True)
class Point:
    """One combination of levels."""

    label: str
    """Unique within the experiment, and fit for a folder's name."""
    levels: dict[str, Level]
    """By factor; one that is a table or list is told by its label."""
    experiment: Experiment
    """With the levels in place, and a design of its own: single."""


def points(experiment: Experiment, *, folder: Path | None = None) -> list[Point]:
    """All points, the last factor varying fastest; InvalidExperiment when one of them cannot be.

    With the folder of the experiment's own behaviours, parameters are checked by the behaviours as well; `read` and
    `parse` have done so.
    """
    design = experiment.design
    lookup = None if folder is None else lookup_in(folder)
    tables = unfolded(experiment)
    del tables["design"]
    problems = [*_problems_of_kind(design), *_problems_of_factors(design, tables, lookup)]
    if problems:
        raise InvalidExperiment(problems)
    if not design.factors:
        return [Point("single", {}, experiment)]
    made = [_point(design, tables, chosen, lookup) for chosen in _combinations(design)]
    refused = {
        (problem.keys, reason): problem
        for point in reversed(made)
        if isinstance(point, list)
        for problem, reason in point
    }
    if refused:
        raise InvalidExperiment(refused.values())
    return [point for point in made if isinstance(point, Point)]


def order(
    points: Sequence[Point], repetitions: int, seed: int, kind: Literal["random", "given"] = "random"
) -> list[tuple[Point, int]]:
    """Every point so many times, the repetitions counted from 1: shuffled, or all points as given, again and again."""
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
    """The values it gives, by path."""


def _choices(factor: Factor) -> list[_Choice]:
    texts = _level_texts(factor.levels)
    return [_Choice(level, texts[place], factor.settings(place)) for place, level in enumerate(factor.levels)]


def _combinations(design: Design) -> Iterator[dict[str, _Choice]]:
    """One level of each factor."""
    for chosen in itertools.product(*map(_choices, design.factors.values())):
        yield dict(zip(design.factors, chosen, strict=True))


def _point(
    design: Design, tables: Mapping[str, Any], chosen: Mapping[str, _Choice], lookup: Lookup | None
) -> Point | list[tuple[Problem, str]]:
    """The point, or what is wrong with it, each with the bare reason, which other points may share."""
    label = ",".join(f"{name}={choice.text}" for name, choice in chosen.items())
    varied = copy.deepcopy(dict(tables))
    for choice in chosen.values():
        for path, value in choice.settings.items():
            _put(varied, _keys(path), value)
    experiment, problems = resolve(varied, lookup)
    if experiment is None:
        return [
            (Problem(_blamed(design, problem.keys), f"with {label}: {problem.reason}"), problem.reason)
            for problem in problems
        ]
    levels = {name: one.level if isinstance(one.level, Level) else one.text for name, one in chosen.items()}
    return Point(_shortened(label, LONGEST_LABEL), levels, experiment)


def _put(tables: Any, keys: Keys, value: object) -> None:
    for key in keys[:-1]:
        tables = tables[key]
    tables[keys[-1]] = copy.deepcopy(value)


def _blamed(design: Design, keys: Keys) -> Keys:
    """Where the value complained of is listed in the factor that sets it; else the levels of the only factor."""
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
        return _set_of(name, setters[0][1])
    return ("design", "factors", name, "levels")


def _set_of(name: str, *path: str) -> Keys:
    return ("design", "factors", name, "set", *path)


def _problems_of_kind(design: Design) -> Iterator[Problem]:
    """The number of factors and levels."""
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
    """What the factors set, and that their levels differ."""
    setters: dict[str, str] = {}
    for name, factor in design.factors.items():
        lists = list(_problems_of_lists(name, factor))
        yield from lists or _problems_of_levels(name, factor)
        for path in factor.set:
            keys = _set_of(name, path) if isinstance(factor.set, dict) else _set_of(name)
            if path in setters:
                yield Problem(keys, f"{name} sets '{path}', but {setters[path]} does so already; let one of them do it")
            elif not _is_settable(tables, _keys(path), lookup):
                near = difflib.get_close_matches(path, _settable(tables, lookup), n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ", or it cannot vary"
                yield Problem(keys, f"{name} sets '{path}', but there is no such key{hint}")
            setters.setdefault(path, name)


def _problems_of_lists(name: str, factor: Factor) -> Iterator[Problem]:
    """Of a factor that lists the values of each key: that there is one for each level."""
    levels = len(factor.levels)
    for path, values in factor.set.items() if isinstance(factor.set, dict) else ():
        if len(values) != levels:
            reason = f"{name} has {_counted(levels, 'level')}, but {_counted(len(values), 'value')} for '{path}'"
            yield Problem(_set_of(name, path), f"{reason}; give one for each level")


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _problems_of_levels(name: str, factor: Factor) -> Iterator[Problem]:
    settings = [factor.settings(place) for place in range(len(factor.levels))]
    for place, level in enumerate(factor.levels):
        if level in factor.levels[:place]:
            reason = f"{name} has the level {_text(level)} twice; every level must differ"
            yield Problem(("design", "factors", name, "levels"), reason)
        elif settings[place] in settings[:place]:
            other = factor.levels[settings.index(settings[place])]
            reason = f"{name} sets the same values at the levels {_text(other)} and {_text(level)}; they must differ"
            yield Problem(_set_of(name), reason)


def _is_settable(tables: Mapping[str, Any], keys: Keys, lookup: Lookup | None) -> bool:
    *way, last = keys
    if not way or way[0] not in SETTABLE or keys == ("run", "repetitions"):
        return False
    table: Any = tables
    for key in way:
        table = table[key] if _leads_on(table, key) else None
    if not isinstance(table, Mapping):
        return False
    if len(way) == 2 and way[0] == "clients":
        known = _keys_of_group(table, lookup)
        return known is None or last in known
    return last in known_keys(tuple(way)) or (len(way) > 2 and last in table)


def _leads_on(table: Any, key: str | int) -> bool:
    if isinstance(key, int):
        return isinstance(table, list) and 0 <= key < len(table)
    return isinstance(table, Mapping) and key in table


def _keys_of_group(group: Mapping[str, Any], lookup: Lookup | None) -> tuple[str, ...] | None:
    """The keys that [clients.NAME] may have; None when its behaviour is not asked."""
    return None if lookup is None else group_keys(lookup(group["behaviour"]))


def _settable(tables: Mapping[str, Any], lookup: Lookup | None) -> list[str]:
    """What a path could have meant."""
    plain = [f"{table}.{key}" for table in SETTABLE[:3] for key in known_keys((table,)) if key != "repetitions"]
    return plain + [
        f"clients.{name}.{key}"
        for name, group in tables["clients"].items()
        for key in _keys_of_group(group, lookup) or GROUP_KEYS
    ]


def _keys(path: str) -> Keys:
    """`faults.1.seconds`: the first fault, counted from 1 as people do."""
    root, *rest = path.split(".")
    return (root, *(int(part) - 1 if root == "faults" and part.isdecimal() else part for part in rest))


def _level_texts(levels: Sequence[Any]) -> list[str]:
    """A text for each level; where two would be the same, they get their numbers."""
    texts = [_shortened(_text(level), LONGEST_LEVEL) for level in levels]
    return [f"{text}-{number}" if texts.count(text) > 1 else text for number, text in enumerate(texts, 1)]


def _text(level: object) -> str:
    """A level as a part of a folder's name: `200`, `true`, `uniform-100-2000`."""
    if isinstance(level, Mapping):
        return "-".join(f"{_text(key)}-{_text(value)}" for key, value in level.items())
    if isinstance(level, list):
        return "-".join(map(_text, level))
    if isinstance(level, bool):
        return str(level).lower()
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", number_text(level)) or "none"


def _shortened(text: str, longest: int) -> str:
    """The beginning, and a mark that tells it from others that begin alike."""
    return text if len(text) <= longest else f"{text[: longest - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
