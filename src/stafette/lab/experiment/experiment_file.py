"""Experiment files: one TOML file says what is started, which clients put load on it, for how long, and what varies.

A file is checked completely before anything starts, and all its problems are reported at once, with their lines.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stafette.database.masking import masked_tables
from stafette.errors import InvalidRequest
from stafette.lab.experiment import design, toml_limits
from stafette.lab.experiment.file_checks import Lookup, lookup_in, resolve
from stafette.lab.experiment.file_problems import (
    DISTRIBUTIONS,
    InvalidExperiment,
    Problem,
    add_lines,
    format_unknown,
    invalid_value,
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
from stafette.lab.experiment.toml_lines import Keys, key_lines, line_in

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
    "parse_alone",
    "read",
    "read_text",
]

_LOCATION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read(path: Path, profile: str | None = None) -> Experiment:
    """Read a file, with a profile applied; raises InvalidExperiment with all problems."""
    text = read_text(path)
    try:
        return parse(text, folder=path.parent, profile=profile, name=path.stem)
    except InvalidExperiment as error:
        raise InvalidExperiment(error.problems, file=str(path)) from None


def read_text(path: Path) -> str:
    """The text of a file, if it is not larger than an experiment may be."""
    try:
        with path.open("rb") as file:
            content = file.read(toml_limits.MOST_BYTES + 1)
        toml_limits.check_size(len(content))
        return content.decode().replace("\r\n", "\n")
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not a text in UTF-8; save it as one") from error
    except toml_limits.TooLarge as error:
        raise InvalidRequest(f"{path}: {error}") from error


def parse(text: str, *, folder: Path | None, profile: str | None = None, name: str | None = None) -> Experiment:
    """Parse the text of a file; `name` is for a text without a name.

    The experiment's own behaviours are in the folder, and are imported. Without a folder it may have none, and nothing
    is imported.
    """
    return _parse(text, lookup_in(folder), profile, name)


def parse_alone(text: str, *, profile: str | None = None, name: str | None = None) -> Experiment:
    """The same without looking at its behaviours: what they would refuse stays unnoticed, and nothing is imported."""
    return _parse(text, None, profile, name)


def _parse(text: str, lookup: Lookup | None, profile: str | None, name: str | None) -> Experiment:
    tables = _toml(text)
    profiles = tables.pop("profiles", {})
    problems = list(_problems_of_profiles(profiles, profile))
    if profile is not None and not problems:
        tables = _overlay(tables, profiles[profile])
    if name is not None:
        tables.setdefault("name", name)
    problems += _impossible_values(tables, ())
    reported_keys = {problem.keys for problem in problems}
    experiment, more_problems = resolve(tables, lookup)
    problems += [problem for problem in more_problems if problem.keys not in reported_keys]
    if experiment and not problems:
        problems = _problems_of_points(experiment, lookup)
    if experiment is None or problems:
        lines = key_lines(text)
        raise InvalidExperiment(add_lines(problems, lambda keys: line_in(lines, keys, profile=profile)))
    return experiment


def fingerprint(experiment: Experiment) -> str:
    """A hash that is equal for equal experiments, without passwords of URLs; the order of groups and factors counts."""
    tables: dict[str, Any] = masked_tables(experiment.model_dump(mode="json"))
    tables["clients"] = list(tables["clients"].items())
    tables["design"]["factors"] = list(tables["design"]["factors"].items())
    canonical = json.dumps(tables, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _toml(text: str) -> dict[str, Any]:
    try:
        return toml_limits.loads(text)
    except toml_limits.TooLarge as error:
        raise InvalidExperiment([Problem((), error.sentence)]) from error
    except (ValueError, RecursionError) as error:  # also for an integer that is too long, or tables nested too deeply
        message = str(error)
        location = _LOCATION.search(message)
        line = int(location[1]) if location and location[1] else max(1, len(text.splitlines())) if location else None
        reason = _LOCATION.sub("", message)
        raise InvalidExperiment([Problem((), f"not valid TOML: {reason[:1].lower()}{reason[1:]}", line)]) from error


def _problems_of_profiles(profiles: Any, profile_name: str | None) -> Iterator[Problem]:
    """Problems with the profiles; their values are checked only when a profile is applied."""
    if not isinstance(profiles, Mapping):
        yield invalid_value(("profiles",), profiles, "it must be a table of profiles, such as [profiles.quick]")
        return
    for name, profile in profiles.items():
        if not isinstance(profile, Mapping):
            yield invalid_value(("profiles", name), profile, "it must be a table")
            continue
        for key in profile:
            if key not in Experiment.model_fields:
                where = f"in [profiles.{name}]"
                yield Problem(
                    ("profiles", name, key), format_unknown("key", key, where, tuple(Experiment.model_fields))
                )
    if profile_name is not None and profile_name not in profiles:
        hint = f"there are {', '.join(profiles)}" if profiles else "the file has none"
        yield Problem((), f"there is no profile '{profile_name}'; {hint}")


def _overlay(tables: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a profile: tables are merged, all other values and distributions are replaced."""
    result = dict(tables)
    for key, value in profile.items():
        base = result.get(key)
        if isinstance(value, Mapping) and isinstance(base, Mapping) and not _is_distribution(value):
            result[key] = _overlay(base, value)
        else:
            result[key] = value
    return result


def _is_distribution(table: Mapping[str, Any]) -> bool:
    return len(table) == 1 and table.keys() <= DISTRIBUTIONS


def _impossible_values(value: object, keys: Keys) -> Iterator[Problem]:
    """Problems with values that TOML has and no key of an experiment accepts."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _impossible_values(inner, (*keys, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _impossible_values(inner, (*keys, position))
    elif isinstance(value, float) and not math.isfinite(value):
        yield invalid_value(keys, value, "it must be a finite number")
    elif isinstance(value, datetime.date | datetime.time):
        yield invalid_value(keys, value, "it must not be a date or time")


def _problems_of_points(experiment: Experiment, lookup: Lookup | None) -> list[Problem]:
    try:
        design.points(experiment, lookup=lookup)
    except InvalidExperiment as error:
        return error.problems
    return []
