"""What is written down about a series and about each of its runs, in files that somebody else can read later."""

from __future__ import annotations

import datetime
import platform
import subprocess
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from stafette.errors import InvalidRequest
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.summary import PerSecond, Summary
from stafette.runs.window import Window

FORMAT = 1
"""Of the files; a change that older programs would misread makes it 2."""

DesignKind = Literal["single", "sweep", "factorial", "2k"]
Levels = dict[str, Any]
State = Literal["waiting", "running", "done", "failed", "interrupted"]


class FactsFound(msgspec.Struct, frozen=True, tag=True):
    """What machine this is."""

    host: str
    system: str
    machine: str
    cores: int
    memory_bytes: int
    python: str


class Offset(msgspec.Struct, frozen=True):
    """How far the clock of a machine is ahead of the runner's, give or take the error."""

    offset_ns: int
    error_ns: int


class Machine(msgspec.Struct):
    """A machine that took part."""

    name: str
    address: str
    facts: FactsFound
    clock_before: Offset
    """How far its clock was ahead of the runner's; times in traces and samples have been put right by this."""
    clock_after: Offset | None = None


class ThresholdResult(msgspec.Struct):
    """Whether a run reached what it should."""

    metric: str
    threshold: str
    value: float | None
    ok: bool


class Messages(msgspec.Struct):
    """How many messages were in the system."""

    preloaded: int
    left: int


class Spread(msgspec.Struct, frozen=True):
    """Some figures of a set of times, in milliseconds; all zero when there were none."""

    mean: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Done(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """What a load process says at its end; health is that of the measured window."""

    requests: int
    errors: dict[str, int]
    steps: int
    cpu_share: float
    """Of one core."""
    late_ms: Spread
    """How far behind their intended start the steps of open loops started."""
    lag_ms: Spread
    """How late the event loop rang a timer."""
    rows: int
    dropped: int
    starved_share: float = 0.0
    """Of the time, in which it had something to do but no core to do it on."""


class Check(msgspec.Struct, frozen=True):
    """What was looked at, and what was found."""

    name: str
    ok: bool
    expected: str
    found: str
    sentence: str
    advisory: bool = False
    """Worth knowing; does not make a run invalid."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether a run counts, and why."""

    valid: bool
    sentences: list[str]


class RunOutline(msgspec.Struct):
    """The part of ``run.json`` that an analysis needs; whatever else is in the file may be missing, or otherwise."""

    id: str
    """SERIES/FOLDER; the trace's rows bear it, too."""
    experiment: str
    label: str
    levels: Levels
    repetition: int
    settings: dict[str, Any]
    """The experiment, with the levels of this point in place."""
    state: State
    design: DesignKind = "single"
    """What kind of design this is a point of."""
    why: str | None = None
    """Why it failed or was interrupted."""
    format: int = FORMAT
    load: Window | None = None
    """From the start of the load to its end."""
    window: Window | None = None
    """What was measured of it."""
    closed_loop: ClosedLoop | None = None
    """What Little's law needs; None when it cannot be checked, or in files of before there was this key."""
    verdict: Verdict | None = None


class RunRecord(RunOutline, kw_only=True):
    """``run.json``: everything about one run."""

    seed: int
    stafette: str = ""
    """Its version."""
    revision: str | None = None
    """Of the source code, when it ran from a checkout; with a + when that had been changed."""
    python: str = platform.python_version()
    started_at: str = ""
    ended_at: str = ""
    database: dict[str, str] = {}
    """PostgreSQL's version and the settings that matter."""
    machines: list[Machine] = []
    processes: dict[str, str] = {}
    """Which process ran on which machine."""
    faults: list[dict[str, Any]] = []
    """What was done to which process, and when, in nanoseconds since the epoch."""
    messages: Messages | None = None
    workers: dict[str, Done] = {}
    summary: Summary | None = None
    per_second: PerSecond | None = None
    checks: list[Check] = []
    thresholds: list[ThresholdResult] = []

    @property
    def passed(self) -> bool:
        """Whether it reached every threshold."""
        return all(result.ok for result in self.thresholds)


class Planned(msgspec.Struct):
    """A run of a series, in its place in the order."""

    label: str
    levels: Levels
    repetition: int
    state: State = "waiting"
    folder: str | None = None
    """The newest attempt."""


class SeriesRecord(msgspec.Struct):
    """``series.json``: one execution of an experiment."""

    name: str
    experiment: str
    profile: str | None
    fingerprint: str
    """Of the experiment with its profile laid over it: by this a series is found again and continued."""
    settings: dict[str, Any]
    seed: int
    runs: list[Planned]
    """In the order in which they are made."""
    state: State = "running"
    started_at: str = ""
    ended_at: str = ""
    format: int = FORMAT
    file: str = ""
    """The name of the experiment's file."""


Record = TypeVar("Record", RunRecord, SeriesRecord)


def write(path: Path, record: RunRecord | SeriesRecord) -> None:
    """Write a record so that it is there whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    unfinished.rename(path)


def read(path: Path, kind: type[Record]) -> Record:
    """Read a record."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"{path} is not a record of this Stafette: {error}") from error


class _Format(msgspec.Struct):
    format: int


def outline(text: str) -> RunOutline:
    """Read the outline of a run out of the text of its record, wherever that came from."""
    try:
        if (number := msgspec.json.decode(text, type=_Format).format) != FORMAT:
            raise InvalidRequest(f"is of format {number}, this Stafette reads format {FORMAT}")
        return msgspec.json.decode(text, type=RunOutline)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"is not a record of a run: {error}") from error


def now() -> str:
    """The time, for people."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def revision() -> str | None:
    """The revision of the source code, when we run from a checkout of it."""
    described = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or None
