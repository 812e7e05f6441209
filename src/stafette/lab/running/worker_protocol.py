"""The messages between a runner and its workers, one JSON object per line.

The runner sends the job, and, when the worker is ready, the time of the start. The worker reports its progress each
second, and its end::

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
    """`clients` join at the start of the load, and as many again every `every` seconds."""

    clients: int
    every: float

    def __post_init__(self) -> None:
        if self.clients < 1 or self.every < 0:
            raise ValueError("a ramp adds at least one client at a time, and seconds are not negative")


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client group: clients with the same behaviour."""

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
    """Length of the load, with warm-up and cool-down."""
    window: tuple[float, float]
    """Start and end of the measured window, in seconds after the start of the load."""
    groups: dict[str, Group]
    url: str = ""
    database: str = ""
    behaviours: str = "."
    """The folder of the experiment's own behaviours."""
    queues: tuple[str, ...] = ()
    clock_ahead_ns: int = 0
    """How far the clock of this machine is ahead of the runner's; the trace corrects its times by it."""

    def __post_init__(self) -> None:
        if not 0 <= self.worker < self.workers:
            raise ValueError("worker is a number from 0 on, below workers")
        if not 0 <= self.window[0] <= self.window[1] <= self.seconds:
            raise ValueError("the window does not lie within the load's seconds")


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start of the load, in nanoseconds since the epoch."""

    start_at_ns: int


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """All clients of the worker are connected and have begun."""

    clients: int


class Failed(msgspec.Struct, frozen=True, tag_field="event", tag="failed"):
    """The worker failed."""

    detail: str = msgspec.field(name="sentence")


Event = Ready | Progress | Done | Failed

Message = TypeVar("Message", Job, Start)


def read(line: bytes, kind: type[Message]) -> Message:
    """Decode a message from the runner."""
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"cannot read the {kind.__name__.lower()} that the runner sent: {error}") from error


class LoadClient(msgspec.Struct, frozen=True):
    """One client of a run."""

    index: int
    """Its position among all clients of the run, from 0."""
    group: str
    number: int
    """Its number in its group, from 1."""

    @property
    def name(self) -> str:
        """The name it connects with."""
        return f"{self.group}-{self.number}"


def load_clients(job: Job) -> Iterator[LoadClient]:
    """The clients of this worker: all clients of the run are dealt to the workers in turn."""
    index = 0
    for name, group in job.groups.items():
        for number in range(1, group.count + 1):
            if index % job.workers == job.worker:
                yield LoadClient(index, name, number)
            index += 1


def joins_at(number: int, ramp: Ramp | None) -> float:
    """When a client of the group joins, in seconds after the start of the load."""
    return 0.0 if ramp is None else (number - 1) // ramp.clients * ramp.every


def joined_by(seconds: float, ramp: Ramp, count: int) -> int:
    """How many clients of a group have joined `seconds` after the start of the load."""
    steps = count if ramp.every == 0 else int(seconds // ramp.every)
    return max(0, min(count, ramp.clients * (1 + steps)))
