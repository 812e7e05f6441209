"""What a runner and its workers say to each other, one JSON object per line.

The runner sends the job, hears that the worker is ready, names the moment of the start, and hears of the progress each
second and of the end::

    runner → worker    Job                  Start
    worker → runner          Ready                  Progress … Progress  Done
                             (or Failed, at any time)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from stafette.errors import InvalidRequest
from stafette.load.generator import Arrivals, Progress
from stafette.runs.records import Done


class Ramp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many clients at the start of the load, and so many more every so many seconds."""

    clients: int
    every: float

    def __post_init__(self) -> None:
        if self.clients < 1 or self.every < 0:
            raise ValueError("a ramp adds at least one client at a time, and seconds are not negative")


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients that do the same."""

    behaviour: str
    count: int
    think_time: float | dict[str, Any] = 0.0
    """A number of seconds, or a distribution as in an experiment file."""
    rate: float | None = None
    """Steps per second of all its clients together: an open loop."""
    arrivals: Arrivals = "poisson"
    ramp: Ramp | None = None
    parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count is negative")
        if self.rate is not None and self.rate <= 0:
            raise ValueError("rate is not positive")


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load process's part of a run."""

    run: str
    seed: int
    worker: int
    workers: int
    node: str
    traces: str
    seconds: float
    """How long the load lasts, with everything before and after the measured window."""
    window: tuple[float, float]
    """What is measured: from when to when, in seconds after the load began."""
    groups: dict[str, Group]
    url: str = ""
    database: str = ""
    behaviours: str = "."
    """The folder of the experiment's own behaviours."""
    queues: tuple[str, ...] = ()
    clock_ahead_ns: int = 0
    """How far the clock of this machine is ahead of the runner's, by which the trace is told."""

    def __post_init__(self) -> None:
        if not 0 <= self.worker < self.workers:
            raise ValueError("worker is a number from 0 on, below workers")
        if not 0 <= self.window[0] <= self.window[1] <= self.seconds:
            raise ValueError("the window does not lie within the load's seconds")


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the load begins, in nanoseconds since the epoch."""

    start_at_ns: int


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """All clients of the worker are connected and have begun."""

    clients: int


class Failed(msgspec.Struct, frozen=True, tag_field="event", tag="failed"):
    """Why it ended early."""

    sentence: str


Event = Ready | Progress | Done | Failed

Read = TypeVar("Read", Job, Start)


def read(line: bytes, kind: type[Read]) -> Read:
    """Read what the runner said."""
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"cannot read the {kind.__name__.lower()} that the runner sent: {error}") from error


class Place(msgspec.Struct, frozen=True):
    """One client of a run."""

    index: int
    """Among all clients of the run, from 0."""
    group: str
    number: int
    """In its group, from 1."""

    @property
    def name(self) -> str:
        """The name it connects under."""
        return f"{self.group}-{self.number}"


def places(job: Job) -> Iterator[Place]:
    """The clients of this worker: all clients of the run are dealt to the workers in turn."""
    index = 0
    for name, group in job.groups.items():
        for number in range(1, group.count + 1):
            if index % job.workers == job.worker:
                yield Place(index, name, number)
            index += 1


def joins_at(number: int, ramp: Ramp | None) -> float:
    """How many seconds after the start the ramp lets a client of the group begin."""
    return 0.0 if ramp is None else (number - 1) // ramp.clients * ramp.every


def joined_by(seconds: float, ramp: Ramp, count: int) -> int:
    """How many of a group's clients the ramp has let begin so long after the start."""
    steps = count if ramp.every == 0 else int(seconds // ramp.every)
    return max(0, min(count, ramp.clients * (1 + steps)))
