"""The records of a series and of its runs: ``series.json`` and ``run.json``."""

from __future__ import annotations

import datetime
import platform
import subprocess
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from stafette.errors import InvalidRequest
from stafette.files import write_atomically
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.summary import PerSecond, Summary
from stafette.runs.window import Window

FORMAT = 1
"""Version of the files; it increases with a change that older programs would misread."""

DesignKind = Literal["single", "sweep", "factorial", "2k"]
Levels = dict[str, Any]
State = Literal["waiting", "running", "done", "failed", "interrupted"]


class FactsFound(msgspec.Struct, frozen=True, tag=True):
    """The hardware and system of a machine."""

    host: str
    system: str
    machine: str
    cores: int
    memory_bytes: int
    python: str


class Offset(msgspec.Struct, frozen=True):
    """How far the clock of a machine is ahead of the runner's, ± the error."""

    offset_ns: int
    error_ns: int


class Machine(msgspec.Struct):
    """A machine that took part."""

    name: str
    address: str
    facts: FactsFound
    clock_before: Offset
    """How far its clock was ahead of the runner's; times in traces and samples are corrected by this."""
    clock_after: Offset | None = None


class ThresholdResult(msgspec.Struct):
    """Whether a run reached a threshold."""

    metric: str
    threshold: str
    value: float | None
    ok: bool


class Messages(msgspec.Struct):
    """Number of messages in the system: `preloaded` before the run, `left` after it."""

    preloaded: int
    left: int


class Spread(msgspec.Struct, frozen=True):
    """Statistics of a set of times, in milliseconds; all zero if there were none."""

    mean: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Done(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """What a load process reports at its end; its health is that of the measured window."""

    requests: int
    errors: dict[str, int]
    steps: int
    cpu_share: float
    """Of one core."""
    late_ms: Spread
    """How far behind their intended start the steps of open loops started."""
    lag_ms: Spread
    """How late the event loop called a timer."""
    rows: int
    dropped: int
    starved_share: float = 0.0
    """Share of the time in which it was runnable but had no core."""


class Check(msgspec.Struct, frozen=True):
    """One check of a run: the expected and the measured value, and the result."""

    name: str
    ok: bool
    expected: str
    found: str
    sentence: str
    advisory: bool = False
    """A warning, which does not make a run invalid."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether a run can be trusted, and why."""

    valid: bool
    sentences: list[str]


class RunOutline(msgspec.Struct):
    """The part of ``run.json`` that an analysis needs; other keys in the file are ignored."""

    id: str
    """SERIES/FOLDER; rows of the trace have it, too."""
    experiment: str
    label: str
    levels: Levels
    repetition: int
    settings: dict[str, Any]
    """The experiment, with the levels of this point in place."""
    state: State
    design: DesignKind = "single"
    """The kind of the design that this is a point of."""
    why: str | None = None
    """Why it failed or was interrupted."""
    format: int = FORMAT
    load: Window | None = None
    """From the start of the load to its end."""
    window: Window | None = None
    """The measured part of the load."""
    closed_loop: ClosedLoop | None = None
    """The input of Little's law; None if it cannot be checked, or in files from before this key."""
    verdict: Verdict | None = None


class RunRecord(RunOutline, kw_only=True):
    """``run.json``: everything about one run."""

    seed: int
    stafette: str = ""
    """The version of Stafette."""
    revision: str | None = None
    """Of the source code, if it ran from a checkout; with a + if that had uncommitted changes."""
    python: str = platform.python_version()
    started_at: str = ""
    ended_at: str = ""
    database: dict[str, str] = {}
    """PostgreSQL's version and the settings that matter."""
    machines: list[Machine] = []
    processes: dict[str, str] = {}
    """Which process ran on which machine."""
    faults: list[dict[str, Any]] = []
    """Injected faults: the action, its process, and the time in nanoseconds since the epoch."""
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
    """A run in the plan of a series."""

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
    """Hash of the experiment with its profile applied: identifies the series to continue."""
    settings: dict[str, Any]
    seed: int
    runs: list[Planned]
    """In the order of execution."""
    state: State = "running"
    started_at: str = ""
    ended_at: str = ""
    format: int = FORMAT
    file: str = ""
    """The name of the experiment's file."""
    imported_at: str = ""
    """When it was imported; empty for a series that was begun here. Every import sets it, whatever the archive says."""


Record = TypeVar("Record", RunRecord, SeriesRecord)


def write(path: Path, record: RunRecord | SeriesRecord) -> None:
    """Write a record so that the file is complete or absent."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def read(path: Path, kind: type[Record]) -> Record:
    """Read a record."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{path} is not a record of this Stafette: {error}") from error


class _Format(msgspec.Struct):
    format: int


def outline(text: str) -> RunOutline:
    """Decode the outline of a run from the text of its record."""
    try:
        if (number := msgspec.json.decode(text, type=_Format).format) != FORMAT:
            raise InvalidRequest(f"is of format {number}, this Stafette reads format {FORMAT}")
        return msgspec.json.decode(text, type=RunOutline)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"is not a record of a run: {error}") from error


def now() -> str:
    """The time in UTC, in ISO format."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def moment(text: str) -> datetime.datetime | None:
    """The time that a record has; None if it has none, or an odd one."""
    try:
        time = datetime.datetime.fromisoformat(text)
        time = time.astimezone(datetime.UTC) if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        return None
    return time if 1970 <= time.year < 3000 else None  # no time zone leads out of what a time can be


def revision() -> str | None:
    """The revision of the source code, if this runs from a checkout."""
    git = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return git.stdout.strip() or None
