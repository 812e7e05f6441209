"""What the columns of a delimited text mean, in a small TOML file::

separator = ";"                 # default ","
header = true                   # the first line names the columns; false: columns are numbers, from 1
files = "*.csv"                 # of which names, below the folders; default: all
unit = "ms"                     # of start, end and intended: s, ms, us or ns since the epoch; or
pattern = "yyyy-MM-dd HH:mm:ss.SSS"   # they are dates; "iso" for ISO-8601
zone = "Europe/Zurich"          # of dates that do not say; default UTC
duration_unit = "us"            # of duration and phases; default: unit, or ms where times are dates

[columns]                       # two of start, end and duration; the others if there are any
start = "begin"
duration = "took"
operation = "endpoint"          # also: intended, outcome, client, request, node, run, tier, bytes, messages
[phases]                        # read, decode, queue, database, parked, encode, write
database = "sql_time"
[constants]                     # what is the same in all lines
tier = "broker"                 # default: tier client, operation request, outcome ok, run the folder, node the file
[outcomes]                      # what words of the outcome's column mean; others stay as they are
"200" = "ok"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import pydantic
import pydantic_core
from pydantic import Field

from stafette.errors import InvalidRequest

_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

Unit = Literal["s", "ms", "us", "ns"]
Place = str | int
"""A column: its name, or its number from 1."""


class Columns(pydantic.BaseModel):
    """Where things are."""

    model_config = _STRICT

    start: Place | None = None
    end: Place | None = None
    duration: Place | None = None
    intended: Place | None = None
    operation: Place | None = None
    outcome: Place | None = None
    client: Place | None = None
    request: Place | None = None
    node: Place | None = None
    run: Place | None = None
    tier: Place | None = None
    bytes: Place | None = None
    messages: Place | None = None


class Phases(pydantic.BaseModel):
    """Where the phases of a request are."""

    model_config = _STRICT

    read: Place | None = None
    decode: Place | None = None
    queue: Place | None = None
    database: Place | None = None
    parked: Place | None = None
    encode: Place | None = None
    write: Place | None = None


class Constants(pydantic.BaseModel):
    """What is the same in all lines."""

    model_config = _STRICT

    run: str | None = None
    tier: Literal["client", "broker"] = "client"
    node: str | None = None
    client: str = ""
    operation: str = "request"
    outcome: str = "ok"


class Mapping(pydantic.BaseModel):
    """What the columns of a delimited text mean."""

    model_config = _STRICT

    separator: str = Field(default=",", min_length=1, max_length=1)
    quote: str = Field(default='"', max_length=1)
    header: bool = True
    files: str = "*"
    unit: Unit | None = None
    pattern: str | None = None
    zone: str = "UTC"
    duration_unit: Unit | None = None
    columns: Columns
    phases: Phases = Phases()
    constants: Constants = Constants()
    outcomes: dict[str, str] = {}

    @pydantic.model_validator(mode="after")
    def _is_enough(self) -> Mapping:
        given = [name for name in ("start", "end", "duration") if getattr(self.columns, name) is not None]
        if len(given) != 2:
            raise ValueError("columns must have two of start, end and duration")
        if (self.unit is None) == (self.pattern is None):
            raise ValueError("give a unit of the times, or a pattern when they are dates")
        for name, place in self.places.items():
            if isinstance(place, str) != self.header or (isinstance(place, int) and place < 1):
                how = "a name" if self.header else "a number, from 1, for there is no header"
                raise ValueError(f"the column {name} is given by {how}")
        return self

    @property
    def places(self) -> dict[str, Place]:
        """All columns that are in the text, by what they mean; phases as ``database_ns``."""
        phases = {f"{name}_ns": place for name, place in self.phases}
        return {name: place for name, place in {**dict(self.columns), **phases}.items() if place is not None}

    @property
    def unit_of_durations(self) -> Unit:
        """That of the times, if nothing else is said."""
        return self.duration_unit or self.unit or "ms"


def read(path: Path) -> Mapping:
    """Read a mapping file."""
    try:
        return parse(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except (InvalidRequest, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: {error}") from error


def parse(text: str) -> Mapping:
    """Read the text of a mapping file."""
    try:
        return Mapping.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"this is not TOML: {error}") from error
    except pydantic.ValidationError as error:
        raise InvalidRequest("; ".join(_sentence(problem) for problem in error.errors())) from error


def _sentence(problem: pydantic_core.ErrorDetails) -> str:
    keys = ".".join(str(key) for key in problem["loc"] if key not in ("str", "int"))
    if problem["type"] == "extra_forbidden":
        return f"there is no key {keys}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{keys}: {message}" if keys else message
