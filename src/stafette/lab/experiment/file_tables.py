"""The tables of an experiment file, as models. Each checks the bounds of its own values; `file_checks.py` checks values
against one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict

from stafette.errors import InvalidRequest
from stafette.lab.experiment.distribution import Distribution, Fixed
from stafette.lab.experiment.file_problems import format_unknown
from stafette.lab.experiment.thresholds import METRICS, Threshold
from stafette.runs.records import DesignKind

MOST_QUEUES = 100_000
"""The names of all queues are in memory, once for each group."""

MOST_BROKERS = 1000
"""Each is one process or several; a larger number is a typing error."""


def _pattern_check(pattern: str, requirement: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(requirement)
        return text

    return check


def _name_check(noun: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,59}", name) is None:
            raise ValueError(f"'{name}' cannot be the name of a {noun}; use at most 60 of a-z, 0-9, _ and -")
        return name

    return check


def _check_threshold_metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(format_unknown("metric", name, "in [thresholds]", tuple(METRICS)))
    return name


def _check_metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"it must be one of {', '.join(METRICS)}")
    return name


def _parse_threshold(value: object) -> Threshold:
    if isinstance(value, Threshold):
        return value
    try:
        return Threshold.parse(value)
    except InvalidRequest as error:
        raise ValueError(str(error)) from error


def _check_paths(value: object) -> object:
    paths = [value] if isinstance(value, str) else value
    if isinstance(paths, Mapping) and not paths:
        raise ValueError('it is empty; it must have keys such as "system.brokers", with a value for each level')
    is_list = isinstance(paths, list) and paths and all(isinstance(path, str) for path in paths)
    if not is_list and not isinstance(paths, Mapping):
        raise ValueError('it must be a key such as "system.brokers", a list of them, or a table of their values')
    return paths


def _check_values(value: object) -> object:
    if isinstance(value, Mapping):  # as TOML reads `system.brokers = [1, 2]`
        raise ValueError('it must be a list with a value for each level; write the key in quotes: "system.brokers"')
    if not isinstance(value, list):
        raise ValueError("it must be a list with a value for each level")
    return value


Count = Annotated[int, Strict(), Field(ge=1)]
CountOrNone = Annotated[int, Strict(), Field(ge=0)]
Seconds = Annotated[float, Strict(), Field(gt=0)]
SecondsOrNone = Annotated[float, Strict(), Field(ge=0)]
Share = Annotated[float, Strict(), Field(gt=0, lt=1)]
ExperimentName = Annotated[
    str, AfterValidator(_pattern_check(r"[a-z0-9-]{1,60}", "it must consist of at most 60 of a-z, 0-9 and -"))
]
DatabaseChoice = Annotated[
    str,
    AfterValidator(
        _pattern_check(r"reset|fresh|postgres(ql)?://\S+", 'it must be "reset", "fresh" or a URL "postgresql://…"')
    ),
]
Host = Annotated[
    str,
    AfterValidator(
        _pattern_check(
            r"([^@\s/]+@)?(\[[0-9A-Fa-f:.%]+\]|[^@\s/:\[\]]+)(:[0-9]{1,5})?",
            "it must be the name of a machine or [user@]address[:port]",
        )
    ),
]


class _Table(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class System(_Table):
    """What is started for each run."""

    brokers: Annotated[int, Strict(), Field(ge=0, le=MOST_BROKERS)] = 1
    workers: Count = 1
    connections: Count = 4
    batch: Count = 512
    max_clients: Count = 10_000
    max_in_flight: Count = 20_000
    load_processes: Count = 1
    database: DatabaseChoice = "reset"


class Preload(_Table):
    """What is in the database before the load begins."""

    queues: Annotated[int, Strict(), Field(ge=0, le=MOST_QUEUES)] = 20
    messages: CountOrNone = 0
    size: Distribution = Fixed(fixed=200)

    @property
    def names(self) -> list[str]:
        """The names of the queues that are created."""
        return [f"q-{number}" for number in range(1, self.queues + 1)]


class Repetitions(_Table):
    """Repeat a point until the confidence interval of its mean is narrow enough."""

    within: Share
    """Half the width of the confidence interval, as a share of the mean."""
    metric: Annotated[str, AfterValidator(_check_metric)] = "throughput"
    level: Share = 0.95
    least: Annotated[int, Strict(), Field(ge=2)] = 3
    most: Annotated[int, Strict(), Field(ge=2)] = 10

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Repetitions:
        if self.least > self.most:
            raise ValueError(f"least is {self.least} and most is {self.most}; least must not be more than most")
        return self


class Run(_Table):
    """The length of a run, and its repetitions."""

    warm_up: SecondsOrNone = 5.0
    duration: Seconds = 30.0
    cool_down: SecondsOrNone = 2.0
    repetitions: Count | Repetitions = 3

    @property
    def seconds(self) -> float:
        """Length of the load, with warm-up and cool-down."""
        return self.warm_up + self.duration + self.cool_down


class Ramp(_Table):
    """`clients` join at the start, and as many again every `every` seconds."""

    clients: Count
    every: Seconds


class Group(_Table):
    """A client group: clients with the same behaviour."""

    behaviour: str
    count: CountOrNone
    think_time: Distribution = Fixed(fixed=0)
    rate: Annotated[float, Strict(), Field(gt=0)] | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    ramp: Ramp | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    """All other keys of its table; the behaviour's own model has checked them."""


GROUP_KEYS = tuple(key for key in Group.model_fields if key != "parameters")
"""The keys of [clients.NAME] that are not the behaviour's."""


class Fault(_Table):
    """A pause of a process."""

    at: SecondsOrNone
    pause: str
    seconds: Seconds


class Factor(_Table):
    """What varies from point to point."""

    set: Annotated[
        list[str] | dict[str, Annotated[list[Any], BeforeValidator(_check_values)]], BeforeValidator(_check_paths)
    ]
    """The paths of the keys that are set to the level, or the values for each path, one for each level."""
    levels: list[Any] = Field(min_length=1)

    def settings(self, position: int) -> dict[str, Any]:
        """The values of the level at this position, by path."""
        if isinstance(self.set, dict):
            return {path: values[position] for path, values in self.set.items()}
        return dict.fromkeys(self.set, self.levels[position])


class Design(_Table):
    """Which points an experiment has."""

    kind: DesignKind = "single"
    order: Literal["random", "given"] = "random"
    factors: dict[Annotated[str, AfterValidator(_name_check("factor"))], Factor] = Field(default_factory=dict)


class Machine(_Table):
    """How to reach a machine, where SSH's own configuration does not say it."""

    address: str | None = None
    user: str | None = None
    port: Annotated[int, Strict(), Field(ge=1, le=65535)] | None = None
    key: str | None = None
    known_hosts: str | None = None
    python: str | None = None
    folder: str | None = None


class Hosts(_Table):
    """Where the tiers run: `local` is this machine."""

    database: Host = "local"
    brokers: Annotated[list[Host], Field(min_length=1)] = ["local"]
    clients: Annotated[list[Host], Field(min_length=1)] = ["local"]
    machines: dict[str, Machine] = Field(default_factory=dict)


class Experiment(_Table):
    """A whole experiment, with its profile laid over it."""

    name: ExperimentName
    title: str = ""
    question: str = ""
    source: str = ""
    original: str = ""
    seed: Annotated[int, Strict()] = 1
    system: System = System()
    preload: Preload = Preload()
    run: Run = Run()
    clients: dict[Annotated[str, AfterValidator(_name_check("group"))], Group] = Field(default_factory=dict)
    faults: list[Fault] = Field(default_factory=list)
    thresholds: dict[
        Annotated[str, AfterValidator(_check_threshold_metric)],
        Annotated[Threshold, BeforeValidator(_parse_threshold), PlainSerializer(str)],
    ] = Field(default_factory=dict)
    design: Design = Design()
    hosts: Hosts | None = None


_TABLES: dict[tuple[str, ...], tuple[str, ...]] = {
    (): (*Experiment.model_fields, "profiles"),
    ("system",): tuple(System.model_fields),
    ("preload",): tuple(Preload.model_fields),
    ("run",): tuple(Run.model_fields),
    ("run", "repetitions"): tuple(Repetitions.model_fields),
    ("clients", "*", "ramp"): tuple(Ramp.model_fields),
    ("faults", "*"): tuple(Fault.model_fields),
    ("design",): tuple(Design.model_fields),
    ("design", "factors", "*"): tuple(Factor.model_fields),
    ("hosts",): tuple(Hosts.model_fields),
    ("hosts", "machines", "*"): tuple(Machine.model_fields),
}


def known_keys(table: tuple[str | int, ...]) -> tuple[str, ...]:
    """The keys that a table of the file may have; empty for a group, whose keys depend on its behaviour."""
    for pattern, keys in _TABLES.items():
        if len(pattern) == len(table) and all(part in ("*", key) for part, key in zip(pattern, table, strict=True)):
            return keys
    return ()
