"""Experiment files: one TOML file says what is started, who puts load on it, for how long, and what varies.

A file is read as a whole before anything starts, and everything that is wrong with it is told at once, with its line.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stafette.errors import InvalidRequest
from stafette.lab.experiment import design
from stafette.lab.experiment.file_checks import lookup_in, resolve
from stafette.lab.experiment.file_problems import (
    DISTRIBUTIONS,
    InvalidExperiment,
    Problem,
    located,
    out_of_place,
    unknown,
)
from stafette.lab.experiment.file_tables import (
    Design,
    Experiment,
    Factor,
    Fault,
    Group,
    Hosts,
    Machine,
    Preload,
    Ramp,
    Repetitions,
    Run,
    System,
)
from stafette.lab.experiment.thresholds import Threshold
from stafette.lab.experiment.toml_lines import Keys, line_of

__all__ = [
    "Design",
    "Experiment",
    "Factor",
    "Fault",
    "Group",
    "Hosts",
    "InvalidExperiment",
    "Machine",
    "Preload",
    "Problem",
    "Ramp",
    "Repetitions",
    "Run",
    "System",
    "Threshold",
    "fingerprint",
    "parse",
    "read",
]

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read(path: Path, profile: str | None = None) -> Experiment:
    """Read a file, with a profile laid over it; InvalidExperiment says all that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not a text in UTF-8; save it as one") from error
    try:
        return parse(text, folder=path.parent, profile=profile, name=path.stem)
    except InvalidExperiment as error:
        raise InvalidExperiment(error.problems, file=str(path)) from None


def parse(text: str, *, folder: Path, profile: str | None = None, name: str | None = None) -> Experiment:
    """Read the text of a file: own behaviours are in the folder, the name is for a text that does not say its own."""
    tables = _toml(text)
    profiles = tables.pop("profiles", {})
    problems = list(_problems_of_profiles(profiles, profile))
    if profile is not None and not problems:
        tables = _overlaid(tables, profiles[profile])
    if name is not None:
        tables.setdefault("name", name)
    problems += _impossible_values(tables, ())
    told = {problem.keys for problem in problems}
    experiment, found = resolve(tables, lookup_in(folder))
    problems += [problem for problem in found if problem.keys not in told]
    if experiment and not problems:
        problems = _problems_of_points(experiment, folder)
    if experiment is None or problems:
        raise InvalidExperiment(located(problems, lambda keys: line_of(text, keys, profile=profile)))
    return experiment


def fingerprint(experiment: Experiment) -> str:
    """Tells whether two experiments are the same in all that they say; the order of groups and factors counts."""
    tables: dict[str, Any] = experiment.model_dump(mode="json")
    tables["clients"] = list(tables["clients"].items())
    tables["design"]["factors"] = list(tables["design"]["factors"].items())
    canonical = json.dumps(tables, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of an integer that is too long, and of what nests too deep
        message = str(error)
        place = _PLACE.search(message)
        line = int(place[1]) if place and place[1] else max(1, len(text.splitlines())) if place else None
        reason = _PLACE.sub("", message)
        raise InvalidExperiment([Problem((), f"not valid TOML: {reason[:1].lower()}{reason[1:]}", line)]) from error


def _problems_of_profiles(profiles: Any, chosen: str | None) -> Iterator[Problem]:
    """What is wrong with the profiles: of those not chosen, only what can be seen at a glance."""
    if not isinstance(profiles, Mapping):
        yield out_of_place(("profiles",), profiles, "it must be a table of profiles, such as [profiles.quick]")
        return
    for name, profile in profiles.items():
        if not isinstance(profile, Mapping):
            yield out_of_place(("profiles", name), profile, "it must be a table")
            continue
        for key in profile:
            if key not in Experiment.model_fields:
                where = f"in [profiles.{name}]"
                yield Problem(("profiles", name, key), unknown("key", key, where, tuple(Experiment.model_fields)))
    if chosen is not None and chosen not in profiles:
        there_are = f"there are {', '.join(profiles)}" if profiles else "the file has none"
        yield Problem((), f"there is no profile '{chosen}'; {there_are}")


def _overlaid(tables: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a profile over tables: tables are merged, all else is replaced, distributions too."""
    result = dict(tables)
    for key, value in profile.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and not _is_distribution(value):
            result[key] = _overlaid(below, value)
        else:
            result[key] = value
    return result


def _is_distribution(table: Mapping[str, Any]) -> bool:
    return len(table) == 1 and table.keys() <= DISTRIBUTIONS


def _impossible_values(value: object, keys: Keys) -> Iterator[Problem]:
    """Values that TOML has and an experiment has no use for, wherever they stand."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _impossible_values(inner, (*keys, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _impossible_values(inner, (*keys, place))
    elif isinstance(value, float) and not math.isfinite(value):
        yield out_of_place(keys, value, "it must be a finite number")
    elif isinstance(value, datetime.date | datetime.time):
        yield out_of_place(keys, value, "it must not be a date or time")


def _problems_of_points(experiment: Experiment, folder: Path) -> list[Problem]:
    try:
        design.points(experiment, folder=folder)
    except InvalidExperiment as error:
        return error.problems
    return []
