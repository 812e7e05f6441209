"""What the editor shows of a text, as its process sends it and templates read it."""

from __future__ import annotations

import msgspec


class Field(msgspec.Struct, frozen=True):
    """One value of the experiment."""

    path: str
    label: str
    value: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    kind: str = "text"
    wide: bool = False


class Part(msgspec.Struct, frozen=True):
    """Fields that belong together."""

    title: str
    fields: list[Field] = []


class TextProblem(msgspec.Struct, frozen=True):
    """A problem of the text, which must be corrected."""

    line: int | None
    message: str


class Plan(msgspec.Struct, frozen=True):
    """What running the experiment takes."""

    points: int
    runs: int
    """The minimum, if the number of repetitions depends on the results."""
    seconds: float
    """Of load, without starting and checking."""


class EditorState(msgspec.Struct, frozen=True):
    """A text in the editor, after it was checked."""

    toml: str
    form: list[Part] | None
    """None if the text is not TOML."""
    problems: list[TextProblem]
    plan: Plan | None
    name: str | None
    profiles: tuple[str, ...] = ()
