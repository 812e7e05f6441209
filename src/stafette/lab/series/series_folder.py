"""Series on disk: one execution of an experiment, made so that it can be broken off anywhere and continued.

What lies where is in `runs.layout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.experiment import design
from stafette.lab.experiment.experiment_file import Experiment, fingerprint
from stafette.runs import records
from stafette.runs.layout import EXPERIMENT_FILE, LOCK_FILE, RUN_FILE, RUNS, SERIES_FILE
from stafette.runs.records import Planned, RunRecord, SeriesRecord
from stafette.statistics.intervals import precise_enough

LOCK_SECONDS = 15.0
POLL_SECONDS = 0.1
_PASSWORD = re.compile(r"(postgres(?:ql)?://[^\s:/@\"']*:)[^\s@\"']*@")
STARS = "***"
_NUMBERED = re.compile(r"(.+)-(\d{4,})")


class Series:
    """A series in its folder."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.folder = folder
        self.experiment = experiment
        """What to run; a series that is only looked at has none. Its record does not know passwords."""
        self.record = records.read(folder / SERIES_FILE, SeriesRecord)

    @property
    def name(self) -> str:
        """The folder's name, which is the series' too, wherever it lies."""
        return self.folder.name

    def save(self) -> None:
        """Write down what has become of the runs."""
        records.write(self.folder / SERIES_FILE, self.record)

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[int]:
        """Be the only runner of this series; yields the lock, for whoever must not outlive it.

        What a killed runner started takes a moment to end, and holds the lock until then.
        """
        patience = time.monotonic() + LOCK_SECONDS
        lock = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > patience:
                        raise InvalidRequest(
                            f"series {self.name} is being run by another process; wait for it, or start a new one"
                            " with --new"
                        ) from error
                    await asyncio.sleep(POLL_SECONDS)
            yield lock
        finally:
            os.close(lock)

    @property
    def runs(self) -> list[RunRecord]:
        """The records of all runs that were begun, in the order of the plan."""
        planned = [run.folder for run in self.record.runs if run.folder]
        return [records.read(self.folder / RUNS / folder / RUN_FILE, RunRecord) for folder in planned]

    def folder_for(self, place: int) -> Path:
        """A new folder for the run at a place in the order; those of earlier attempts stay."""
        run = self.record.runs[place]
        stem = f"{place + 1:03d}-{run.label}-r{run.repetition}"
        attempt = 1
        while (folder := self.folder / RUNS / (stem if attempt == 1 else f"{stem}-again{attempt}")).exists():
            attempt += 1
        folder.mkdir(parents=True)
        return folder

    def next_position(self, experiment: Experiment) -> int | None:
        """The next run to make, in the order; when all are made, more are planned where they are needed."""
        for _ in range(2):
            for place, run in enumerate(self.record.runs):
                if run.state == "waiting":
                    return place
            self._extend(experiment)
        return None

    def reopen(self) -> None:
        """Get ready to go on: what was broken off or failed is to be made again, and says so in its record."""
        for run in self.record.runs:
            if run.state == "done":
                continue
            if run.folder and (path := self.folder / RUNS / run.folder / RUN_FILE).exists():
                record = records.read(path, RunRecord)
                if record.state == "running":
                    record.state, record.why = "interrupted", "the runner ended before the run did"
                    records.write(path, record)
            run.state = "waiting"
        self.record.state = "running"
        self.save()

    def _extend(self, experiment: Experiment) -> None:
        """Plan another repetition of each point that is not known well enough yet."""
        wanted = experiment.run.repetitions
        if isinstance(wanted, int):
            return
        values: dict[str, list[float]] = {}
        for record in self.runs:
            if record.state == "done" and record.summary is not None:
                value = record.summary.metric(wanted.metric)
                values.setdefault(record.label, []).append(0.0 if value is None else value)
        more = [
            point
            for point in design.points(experiment)
            if sum(run.label == point.label for run in self.record.runs) < wanted.most
            and not precise_enough(values.get(point.label, []), wanted.within, wanted.level, wanted.least)
        ]
        made = max(run.repetition for run in self.record.runs)
        for point, _ in design.order(more, 1, self.record.seed + made, experiment.design.order):
            repetition = 1 + sum(run.label == point.label for run in self.record.runs)
            self.record.runs.append(Planned(point.label, point.levels, repetition))
        self.save()


def begin(runs: Path, experiment: Experiment, *, file: Path, profile: str | None, new: bool) -> Series:
    """The series to work on: the newest unfinished one of the same experiment, or a new one."""
    mark = _mark(experiment, file.parent)
    if not new:
        for series in reversed(every(runs)):
            if series.record.fingerprint == mark:
                if series.record.state != "done":
                    return Series(series.folder, experiment)
                break
    return _create(runs, experiment, mark, file=file, profile=profile)


def _create(runs: Path, experiment: Experiment, mark: str, *, file: Path, profile: str | None) -> Series:
    wanted = experiment.run.repetitions
    order = design.order(
        design.points(experiment),
        wanted if isinstance(wanted, int) else wanted.least,
        experiment.seed,
        experiment.design.order,
    )
    folder = _new_folder(runs, experiment.name)
    (folder / EXPERIMENT_FILE).write_text(without_password(file.read_text()))
    for own in own_behaviours(experiment):
        (folder / own).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.parent / own, folder / own)
    record = SeriesRecord(
        name=folder.name,
        experiment=experiment.name,
        profile=profile,
        fingerprint=mark,
        settings=settings(experiment),
        seed=experiment.seed,
        runs=[Planned(point.label, point.levels, repetition) for point, repetition in order],
        started_at=records.now(),
        file=file.name,
    )
    records.write(folder / SERIES_FILE, record)
    return Series(folder, experiment)


def settings(experiment: Experiment) -> dict[str, Any]:
    """All that an experiment says, but for a password."""
    found = experiment.model_dump(mode="json")
    found["system"]["database"] = without_password(found["system"]["database"])
    return found


def without_password(text: str) -> str:
    """The same, with stars for the passwords of databases."""
    return _PASSWORD.sub(rf"\1{STARS}@", text)


def _mark(experiment: Experiment, folder: Path) -> str:
    """Tells whether two experiments are the same, their own behaviours included."""
    files = [hashlib.sha256((folder / own).read_bytes()).hexdigest()[:12] for own in own_behaviours(experiment)]
    return "-".join([fingerprint(experiment), *files])


def own_behaviours(experiment: Experiment) -> list[str]:
    """The files of behaviours that the experiment, or a level of its design, brings along, relative to its own."""
    named = {group.behaviour for group in experiment.clients.values()}
    for factor in experiment.design.factors.values():
        for place in range(len(factor.levels)):
            named |= {str(value) for path, value in factor.settings(place).items() if path.endswith(".behaviour")}
    return sorted({name.rpartition(":")[0] for name in named if ":" in name})


def _new_folder(runs: Path, name: str) -> Path:
    """The next number for the name; another process may be as quick."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
        numbers = [
            int(match[2]) for path in runs.iterdir() if (match := _NUMBERED.fullmatch(path.name)) and match[1] == name
        ]
        number = max(numbers, default=0)
        while True:
            number += 1
            with contextlib.suppress(FileExistsError):
                (folder := runs / f"{name}-{number:04d}").mkdir()
                return folder
    except OSError as error:
        raise InvalidRequest(
            f"cannot keep runs in {runs}: {error.strerror}; name another folder with --runs"
        ) from error


def every(runs: Path) -> list[Series]:
    """All series, the oldest first; folders that are none, or of another version, are left out."""
    found = []
    for path in runs.glob(f"*/{SERIES_FILE}"):
        with contextlib.suppress(StafetteError):
            found.append(Series(path.parent))
    return sorted(found, key=lambda series: (series.record.started_at, series.name))


def find(runs: Path, name: str) -> Series:
    """A series by its name, by an experiment's name (the newest), or by its folder."""
    if (path := Path(name) / SERIES_FILE).is_file():
        return Series(path.parent)
    known = every(runs)
    for series in reversed(known):
        if name in (series.name, series.record.experiment):
            return series
    last = f"the newest is {known[-1].name}" if known else "there are none yet; make one with `stafette lab run`"
    raise SeriesNotFound(f"there is no series {name} in {runs}; {last}")


class SeriesNotFound(InvalidRequest):
    """There is no such series."""
