"""The job queue on disk: the jobs that wait and those that have ended."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from stafette.errors import StafetteError
from stafette.files import write_atomically

FILE = "queue.json"
MOST_ENDED = 30
"""Jobs that stay in the file after their end; their series stay anyway."""

Kind = Literal["run", "analyse"]
State = Literal["waiting", "running", "done", "failed", "stopped"]


class Job(msgspec.Struct):
    """A job: run an experiment, or analyse a series."""

    id: str
    kind: Kind
    experiment: str
    """The name of the experiment."""
    file: str | None = None
    """The path of the experiment file."""
    profile: str | None = None
    new: bool = False
    """Whether to begin a new series, even if one is unfinished."""
    analyse: bool = True
    """Whether to analyse the series after its runs."""
    series: str | None = None
    """The series to analyse, or the series of the run, which continues with it after an interruption."""
    state: State = "waiting"
    asked_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    sentence: str = ""
    """How the job ended."""
    tail: list[str] = []
    """The last lines of its log."""

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.state in ("done", "failed", "stopped")


class QueueState(msgspec.Struct):
    """The queue's file."""

    next: int = 1
    waiting: list[Job] = []
    """In order; the first may be running."""
    ended: list[Job] = []
    """The newest first."""


def load(runs: Path) -> QueueState:
    """Read the queue; empty if there is no file."""
    try:
        return msgspec.json.decode((runs / FILE).read_bytes(), type=QueueState)
    except FileNotFoundError:
        return QueueState()
    except (OSError, msgspec.MsgspecError) as error:
        raise StafetteError(f"cannot read the job queue {runs / FILE}: {error}; repair or remove it") from error


def save(runs: Path, state: QueueState) -> None:
    """Write the queue atomically."""
    write_atomically(runs / FILE, msgspec.json.format(msgspec.json.encode(state), indent=1))
