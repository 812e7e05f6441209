"""What is written down about a series and about each of its runs, in files that somebody else can read later."""

from __future__ import annotations

import datetime
import platform
import subprocess
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

import stafette
from stafette.errors import InvalidRequest
from stafette.lab.agent import FactsFound
from stafette.lab.host import Offset
from stafette.lab.job import Done
from stafette.lab.summary import PerSecond, Summary, Window
from stafette.lab.tables import DesignKind
from stafette.lab.verdict import Check, Verdict

FORMAT = 1
"""Of the files; a change that older programs would misread makes it 2."""

Levels = dict[str, Any]
State = Literal["waiting", "running", "done", "failed", "interrupted"]


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


class RunRecord(msgspec.Struct):
    """``run.json``: everything about one run."""

    id: str
    """SERIES/FOLDER; the trace's rows bear it, too."""
    experiment: str
    label: str
    levels: Levels
    repetition: int
    seed: int
    settings: dict[str, Any]
    """The experiment, with the levels of this point in place."""
    design: DesignKind = "single"
    """What kind of design this is a point of."""
    state: State = "running"
    why: str | None = None
    """Why it failed or was interrupted."""
    format: int = FORMAT
    stafette: str = stafette.__version__
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
    load: Window | None = None
    """From the start of the load to its end."""
    window: Window | None = None
    """What was measured of it."""
    messages: Messages | None = None
    workers: dict[str, Done] = {}
    summary: Summary | None = None
    per_second: PerSecond | None = None
    checks: list[Check] = []
    verdict: Verdict | None = None
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


def now() -> str:
    """The time, for people."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def revision() -> str | None:
    """The revision of the source code, when we run from a checkout of it."""
    folder = Path(stafette.__file__).parent
    asked = subprocess.run(
        ["git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or None
