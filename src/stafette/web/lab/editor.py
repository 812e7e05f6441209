"""What the editor shows of a text: its form, its problems with their lines, and how long running it takes."""

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
# What this experiment measures, and how.
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
class TextProblem:
    """A problem of the text, which must be corrected."""

    line: int | None
    message: str


@dataclass(frozen=True)
class Plan:
    """What running the experiment takes."""

    points: int
    runs: int
    """The minimum, if the number of repetitions depends on the results."""
    seconds: float
    """Of load, without starting and checking."""


@dataclass(frozen=True)
class EditorState:
    """A text in the editor, after it was checked."""

    toml: str
    form: list[Part] | None
    """None if the text is not TOML."""
    problems: list[TextProblem]
    plan: Plan | None
    name: str | None
    profiles: tuple[str, ...] = ()
    experiment: Experiment | None = None


def check(text: str, folder: Path, *, name: str | None = None) -> EditorState:
    """Check a text, alone and with each of its profiles."""
    if len(text.encode()) > MOST_BYTES:
        raise InvalidRequest(f"the text is too long; an experiment has at most {MOST_BYTES:,} bytes")
    text = text.replace("\r\n", "\n")
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        tables = None
    profiles = tables.get("profiles") if tables else None
    profile_names = tuple(profiles) if isinstance(profiles, Mapping) else ()
    experiment, problems = _parse(text, folder, name, None)
    messages = {problem.message for problem in problems}
    for profile in profile_names if experiment else ():
        for problem in _parse(text, folder, name, profile)[1]:
            if problem.message not in messages:
                problems.append(TextProblem(problem.line, f"with the profile {profile}: {problem.message}"))
    return EditorState(
        toml=text,
        form=None if tables is None else form.parts(text),
        problems=problems,
        plan=None if experiment is None else _plan(experiment),
        name=str(tables["name"]) if tables and isinstance(tables.get("name"), str) else name,
        profiles=profile_names,
        experiment=experiment,
    )


def _parse(
    text: str, folder: Path, name: str | None, profile: str | None
) -> tuple[Experiment | None, list[TextProblem]]:
    try:
        return experiment_file.parse(text, folder=folder, name=name, profile=profile), []
    except InvalidExperiment as error:
        return None, [TextProblem(problem.line, problem.reason) for problem in error.problems]


def _plan(experiment: Experiment) -> Plan:
    setting = experiment.run.repetitions
    repetitions = setting if isinstance(setting, int) else setting.least
    points = design.points(experiment)
    seconds = sum(point.experiment.run.seconds for point in points) * repetitions
    return Plan(len(points), len(points) * repetitions, seconds)


def rename(text: str, name: str) -> str:
    """The text with another name; a text that is not TOML stays as it is."""
    try:
        return form.set_field(text, "name", name)
    except InvalidRequest:
        return text


def with_fields(text: str, fields: Mapping[str, Any]) -> str:
    """The text with all fields of a form that differ from what the page had."""
    for key, value in fields.items():
        if not key.startswith("f:") or not isinstance(value, str):
            continue
        path = key[2:]
        if value != fields.get(f"o:{path}", ""):
            text = form.set_field(text, path, value)
    return text
