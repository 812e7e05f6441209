"""What the editor shows of a text: its form, its problems with their lines, and how long running it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stafette.errors import InvalidRequest
from stafette.lab.experiment import design, experiment_file, toml_limits
from stafette.lab.experiment.design import Point
from stafette.lab.experiment.experiment_file import InvalidExperiment
from stafette.lab.experiment.reach import Reach
from stafette.lab.experiment.toml_lines import line_of
from stafette.web.lab import form
from stafette.web.lab.editor_state import EditorState, Plan, TextProblem

MOST_PROBLEMS = 200
"""That are shown; nobody corrects more at a time."""

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


def check(text: str, folder: Path, *, name: str | None = None, reach: Reach | None = None) -> EditorState:
    """Check a text, alone and with each of its profiles; with a reach, also what it would reach."""
    text = text.replace("\r\n", "\n")
    try:
        tables = toml_limits.loads(text)
    except toml_limits.TooLarge as error:
        return EditorState(text, None, [TextProblem(None, error.sentence)], None, name)
    except (ValueError, RecursionError):
        tables = None
    profiles = tables.get("profiles") if tables else None
    profile_names = tuple(profiles) if isinstance(profiles, Mapping) else ()
    points, problems = _parse(text, folder, name, None, reach)
    messages = {problem.message for problem in problems}
    for profile in profile_names if points else ():
        if len(problems) > MOST_PROBLEMS:
            break
        for problem in _parse(text, folder, name, profile, reach)[1]:
            if problem.message not in messages:
                problems.append(TextProblem(problem.line, f"with the profile {profile}: {problem.message}"))
    return EditorState(
        toml=text,
        form=None if tables is None else form.parts(text),
        problems=problems[:MOST_PROBLEMS],
        plan=_plan(points) if points else None,
        name=str(tables["name"]) if tables and isinstance(tables.get("name"), str) else name,
        profiles=profile_names,
    )


def _parse(
    text: str, folder: Path, name: str | None, profile: str | None, reach: Reach | None
) -> tuple[list[Point], list[TextProblem]]:
    """The points of the design, none if the text is not an experiment, and the problems."""
    try:
        experiment = experiment_file.parse(text, folder=folder, name=name, profile=profile)
    except InvalidExperiment as error:
        return [], [TextProblem(problem.line, problem.reason) for problem in error.problems]
    points = design.points(experiment)
    problems = [] if reach is None else list(reach.problems(points))
    return points, [TextProblem(line_of(text, problem.keys, profile=profile), problem.reason) for problem in problems]


def _plan(points: Sequence[Point]) -> Plan:
    setting = points[0].experiment.run.repetitions  # which cannot vary
    repetitions = setting if isinstance(setting, int) else setting.least
    seconds = sum(point.experiment.run.seconds for point in points) * repetitions
    return Plan(len(points), len(points) * repetitions, seconds)


def rename(text: str, name: str) -> str:
    """The text with another name; a text that is not TOML stays as it is."""
    try:
        return form.set_field(text, "name", name)
    except InvalidRequest:
        return text


def changes_of(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The fields of a form that differ from what the page had, with their values."""
    return [
        (key[2:], value)
        for key, value in fields.items()
        if key.startswith("f:") and isinstance(value, str) and value != fields.get(f"o:{key[2:]}", "")
    ]
