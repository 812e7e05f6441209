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
ColumnKey = str | int
"""A column's name, or its number from 1."""


class Columns(pydantic.BaseModel):
    """The columns that are not phases."""

    model_config = _STRICT

    start: ColumnKey | None = None
    end: ColumnKey | None = None
    duration: ColumnKey | None = None
    intended: ColumnKey | None = None
    operation: ColumnKey | None = None
    outcome: ColumnKey | None = None
    client: ColumnKey | None = None
    request: ColumnKey | None = None
    node: ColumnKey | None = None
    run: ColumnKey | None = None
    tier: ColumnKey | None = None
    bytes: ColumnKey | None = None
    messages: ColumnKey | None = None


class Phases(pydantic.BaseModel):
    """The columns of the phases of a request."""

    model_config = _STRICT

    read: ColumnKey | None = None
    decode: ColumnKey | None = None
    queue: ColumnKey | None = None
    database: ColumnKey | None = None
    parked: ColumnKey | None = None
    encode: ColumnKey | None = None
    write: ColumnKey | None = None


class Constants(pydantic.BaseModel):
    """Values that all lines share."""

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
    def _check_columns(self) -> Mapping:
        time_columns = [name for name in ("start", "end", "duration") if getattr(self.columns, name) is not None]
        if len(time_columns) != 2:
            raise ValueError("columns must have two of start, end and duration")
        if (self.unit is None) == (self.pattern is None):
            raise ValueError("give a unit of the times, or a pattern when they are dates")
        for name, key in self.column_keys.items():
            if isinstance(key, str) != self.header or (isinstance(key, int) and key < 1):
                kind = "a name" if self.header else "a number, from 1, for there is no header"
                raise ValueError(f"the column {name} is given by {kind}")
        return self

    @property
    def column_keys(self) -> dict[str, ColumnKey]:
        """All columns that the text has, by their meaning; phases as ``database_ns``."""
        phases = {f"{name}_ns": key for name, key in self.phases}
        return {name: key for name, key in {**dict(self.columns), **phases}.items() if key is not None}

    @property
    def effective_duration_unit(self) -> Unit:
        """The unit of durations and phases: by default that of the times."""
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
        raise InvalidRequest("; ".join(_message(problem) for problem in error.errors())) from error


def _message(problem: pydantic_core.ErrorDetails) -> str:
    keys = ".".join(str(key) for key in problem["loc"] if key not in ("str", "int"))
    if problem["type"] == "extra_forbidden":
        return f"there is no key {keys}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{keys}: {message}" if keys else message
