"""The tables of an experiment file, as models. Each knows the bounds of its own values; what must hold between them is
in `checks.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict

from stafette.errors import InvalidRequest
from stafette.lab.experiment.distribution import Distribution, Fixed
from stafette.lab.experiment.file_problems import unknown
from stafette.lab.experiment.thresholds import METRICS, Threshold
from stafette.runs.records import DesignKind

MOST_QUEUES = 100_000
"""Names of queues are made in memory, for each group anew."""

MOST_BROKERS = 1000
"""Each is a process or several; a number beyond is a slip of the pen."""


def _text(pattern: str, must: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(must)
        return text

    return check


def _name_of(thing: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,59}", name) is None:
            raise ValueError(f"'{name}' cannot be the name of a {thing}; use at most 60 of a-z, 0-9, _ and -")
        return name

    return check


def _metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(unknown("metric", name, "in [thresholds]", tuple(METRICS)))
    return name


def _measured(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"it must be one of {', '.join(METRICS)}")
    return name


def _threshold(value: object) -> Threshold:
    if isinstance(value, Threshold):
        return value
    try:
        return Threshold.parse(value)
    except InvalidRequest as error:
        raise ValueError(str(error)) from error


def _paths(value: object) -> object:
    paths = [value] if isinstance(value, str) else value
    if isinstance(paths, Mapping) and not paths:
        raise ValueError('it is empty; it must have keys such as "system.brokers", with a value for each level')
    listed = isinstance(paths, list) and paths and all(isinstance(path, str) for path in paths)
    if not listed and not isinstance(paths, Mapping):
        raise ValueError('it must be a key such as "system.brokers", a list of them, or a table of their values')
    return paths


def _values(value: object) -> object:
    if isinstance(value, Mapping):  # what `system.brokers = [1, 2]` is to TOML
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
    str, AfterValidator(_text(r"[a-z0-9-]{1,60}", "it must consist of at most 60 of a-z, 0-9 and -"))
]
DatabaseChoice = Annotated[
    str,
    AfterValidator(_text(r"reset|fresh|postgres(ql)?://\S+", 'it must be "reset", "fresh" or a URL "postgresql://…"')),
]
Host = Annotated[
    str,
    AfterValidator(
        _text(
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
        """The queues that are made."""
        return [f"q-{number}" for number in range(1, self.queues + 1)]


class Repetitions(_Table):
    """As many runs of a point as it takes until its mean is known well enough."""

    within: Share
    """Half the width of the confidence interval, as a share of the mean."""
    metric: Annotated[str, AfterValidator(_measured)] = "throughput"
    level: Share = 0.95
    least: Annotated[int, Strict(), Field(ge=2)] = 3
    most: Annotated[int, Strict(), Field(ge=2)] = 10

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Repetitions:
        if self.least > self.most:
            raise ValueError(f"least is {self.least} and most is {self.most}; least must not be more than most")
        return self


class Run(_Table):
    """How long a run takes, and how often it is repeated."""

    warm_up: SecondsOrNone = 5.0
    duration: Seconds = 30.0
    cool_down: SecondsOrNone = 2.0
    repetitions: Count | Repetitions = 3

    @property
    def seconds(self) -> float:
        """Of load, from its start to its end."""
        return self.warm_up + self.duration + self.cool_down


class Ramp(_Table):
    """So many clients at the start, and so many more every so many seconds."""

    clients: Count
    every: Seconds


class Group(_Table):
    """Clients that behave alike."""

    behaviour: str
    count: CountOrNone
    think_time: Distribution = Fixed(fixed=0)
    rate: Annotated[float, Strict(), Field(gt=0)] | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    ramp: Ramp | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    """All other keys of its table, as given; the behaviour's own model has checked them."""


GROUP_KEYS = tuple(key for key in Group.model_fields if key != "parameters")
"""The keys of [clients.NAME] that are not the behaviour's."""


class Fault(_Table):
    """A process that stands still for a while."""

    at: SecondsOrNone
    pause: str
    seconds: Seconds


class Factor(_Table):
    """What varies from point to point."""

    set: Annotated[list[str] | dict[str, Annotated[list[Any], BeforeValidator(_values)]], BeforeValidator(_paths)]
    """The paths of the keys that get the level, or, by path, the values that they get instead, one for each level."""
    levels: list[Any] = Field(min_length=1)

    def settings(self, place: int) -> dict[str, Any]:
        """What the keys get with the level at this place, by path."""
        if isinstance(self.set, dict):
            return {path: values[place] for path, values in self.set.items()}
        return dict.fromkeys(self.set, self.levels[place])


class Design(_Table):
    """Which points an experiment has."""

    kind: DesignKind = "single"
    order: Literal["random", "given"] = "random"
    factors: dict[Annotated[str, AfterValidator(_name_of("factor"))], Factor] = Field(default_factory=dict)


class Machine(_Table):
    """How to reach a machine, where SSH's own configuration does not say so."""

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
    clients: dict[Annotated[str, AfterValidator(_name_of("group"))], Group] = Field(default_factory=dict)
    faults: list[Fault] = Field(default_factory=list)
    thresholds: dict[
        Annotated[str, AfterValidator(_metric)],
        Annotated[Threshold, BeforeValidator(_threshold), PlainSerializer(str)],
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
    """The keys that a table of the file may have; those of a group depend on its behaviour and are not known here."""
    for pattern, keys in _TABLES.items():
        if len(pattern) == len(table) and all(part in ("*", key) for part, key in zip(pattern, table, strict=True)):
            return keys
    return ()
