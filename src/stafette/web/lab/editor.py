"""What the editor shows of a text: its form, what is wrong with it line by line, and what running it would take."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stafette.errors import InvalidRequest
from stafette.lab.experiment import design, experiment_file
from stafette.lab.experiment.experiment_file import Experiment, InvalidExperiment
from stafette.lab.experiment.experiment_library import MOST_BYTES
from stafette.web.lab import form
from stafette.web.lab.form import Part

BLANK = """\
# What is to be found out, and how.
name = "{name}"
title = ""
question = ""

[preload]
queues = 10

[run]
warm_up = 2.0
duration = 10.0
cool_down = 1.0
repetitions = 3

[clients.alice]
behaviour = "alice"
count = 8

[clients.bob]
behaviour = "bob"
count = 8

[profiles.quick]
run = {{ warm_up = 0.5, duration = 2.0, cool_down = 0.5, repetitions = 1 }}
"""


@dataclass(frozen=True)
class Wrong:
    """Something to mend."""

    line: int | None
    message: str


@dataclass(frozen=True)
class Plan:
    """What running it takes."""

    points: int
    runs: int
    """At least, when the number of repetitions depends on what is found."""
    seconds: float
    """Of load; starting and checking come on top."""


@dataclass(frozen=True)
class Checked:
    """A text that somebody edits."""

    toml: str
    form: list[Part] | None
    """None when the text is not TOML: then there is nothing to put into a form."""
    problems: list[Wrong]
    plan: Plan | None
    name: str | None
    profiles: tuple[str, ...] = ()
    experiment: Experiment | None = None


def check(text: str, folder: Path, *, name: str | None = None) -> Checked:
    """Look through a text, with every profile that it has."""
    if len(text.encode()) > MOST_BYTES:
        raise InvalidRequest(f"an experiment has at most {MOST_BYTES:,} bytes")
    text = text.replace("\r\n", "\n")
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        tables = None
    profiles = tables.get("profiles") if tables else None
    names = tuple(profiles) if isinstance(profiles, Mapping) else ()
    found, problems = _read(text, folder, name, None)
    known = {wrong.message for wrong in problems}
    for profile in names if found else ():
        for wrong in _read(text, folder, name, profile)[1]:
            if wrong.message not in known:
                problems.append(Wrong(wrong.line, f"with the profile {profile}: {wrong.message}"))
    return Checked(
        toml=text,
        form=None if tables is None else form.parts(text),
        problems=problems,
        plan=None if found is None else _plan(found),
        name=str(tables["name"]) if tables and isinstance(tables.get("name"), str) else name,
        profiles=names,
        experiment=found,
    )


def _read(text: str, folder: Path, name: str | None, profile: str | None) -> tuple[Experiment | None, list[Wrong]]:
    try:
        return experiment_file.parse(text, folder=folder, name=name, profile=profile), []
    except InvalidExperiment as error:
        return None, [Wrong(problem.line, problem.reason) for problem in error.problems]


def _plan(found: Experiment) -> Plan:
    wanted = found.run.repetitions
    each = wanted if isinstance(wanted, int) else wanted.least
    points = design.points(found)
    return Plan(len(points), len(points) * each, sum(point.experiment.run.seconds for point in points) * each)


def renamed(text: str, name: str) -> str:
    """The text of a copy; where the text cannot be read it stays as it is, and is told to be mended."""
    try:
        return form.changed(text, "name", name)
    except InvalidRequest:
        return text


def with_fields(text: str, fields: Mapping[str, Any]) -> str:
    """The text with the fields of a form that were changed: those that are not as the page had them."""
    for key, value in fields.items():
        if not key.startswith("f:") or not isinstance(value, str):
            continue
        path = key[2:]
        if value != fields.get(f"o:{path}", ""):
            text = form.changed(text, path, value)
    return text
