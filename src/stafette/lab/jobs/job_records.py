"""Jobs of the queue as they are kept on disk: what is to be done, and what has become of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from stafette.errors import StafetteError

FILE = "queue.json"
MOST_ENDED = 30
"""Jobs that are remembered after their end; what they made stays anyway."""

Kind = Literal["run", "analyse"]
State = Literal["waiting", "running", "done", "failed", "stopped"]


class Job(msgspec.Struct):
    """One thing to do: run an experiment, or analyse a series."""

    id: str
    kind: Kind
    experiment: str
    """Its name, for people."""
    file: str | None = None
    """Where the experiment is."""
    profile: str | None = None
    new: bool = False
    """Whether to begin a new series, even if one is unfinished."""
    analyse: bool = True
    """Whether to end with the analysis."""
    series: str | None = None
    """The series that is analysed, or that the run has begun: after an interruption, it goes on with this one."""
    state: State = "waiting"
    asked_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    sentence: str = ""
    """What came of it."""
    tail: list[str] = []
    """The last lines of its log."""

    @property
    def over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ("done", "failed", "stopped")


class Kept(msgspec.Struct):
    """The queue's file."""

    next: int = 1
    waiting: list[Job] = []
    """In their order; the first may be under way."""
    ended: list[Job] = []
    """The newest first."""


def load(runs: Path) -> Kept:
    """The queue as it was left; what was under way is to go on."""
    try:
        kept = msgspec.json.decode((runs / FILE).read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept()
    except (OSError, msgspec.MsgspecError) as error:
        raise StafetteError(f"cannot read the queue of runs, {runs / FILE}: {error}; mend or remove it") from error
    return kept


def save(runs: Path, kept: Kept) -> None:
    """Write the queue so that it is there whole or as it was before."""
    unfinished = runs / f".{FILE}.tmp"
    with unfinished.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(kept), indent=1))
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(runs / FILE)
