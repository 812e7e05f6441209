"""Series on disk: one execution of an experiment, which can be interrupted at any time and continued.

`runs.layout` has the names of files and folders.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from stafette.database.masking import masked_tables, masked_toml
from stafette.errors import InvalidRequest, NotFound, StafetteError
from stafette.files import make_private_folder, try_lock, write_atomically
from stafette.lab.experiment import design
from stafette.lab.experiment.experiment_file import Experiment, fingerprint
from stafette.runs import records
from stafette.runs.layout import EXPERIMENT_FILE, LOCK_FILE, RUN_FILE, RUNS, SERIES_FILE
from stafette.runs.records import Planned, RunRecord, SeriesRecord
from stafette.statistics.intervals import precise_enough

LOCK_SECONDS = 15.0
POLL_SECONDS = 0.1
SERIES_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NUMBERED = re.compile(r"(.+)-(\d{4,})")


class Series:
    """A series in its folder."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.folder = folder
        self.experiment = experiment
        """The experiment to run, with passwords, which the record does not have; None for reading only."""
        self.record = records.read(folder / SERIES_FILE, SeriesRecord)
        self.record.settings = masked_tables(self.record.settings)  # an earlier version masked less

    @property
    def name(self) -> str:
        """The folder's name, which is the name of the series."""
        return self.folder.name

    def save(self) -> None:
        """Write the record."""
        records.write(self.folder / SERIES_FILE, self.record)

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[int]:
        """Be the only runner of this series; yields the lock, which child processes inherit.

        The children of a killed runner take a moment to end, and hold the lock until then.
        """
        deadline = time.monotonic() + LOCK_SECONDS
        lock = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not try_lock(lock):
                if time.monotonic() > deadline:
                    raise InvalidRequest(
                        f"series {self.name} is being run by another process; wait for it, or start a new one"
                        " with --new"
                    )
                await asyncio.sleep(POLL_SECONDS)
            yield lock
        finally:
            os.close(lock)

    def check_plan(self, experiment: Experiment) -> None:
        """Raise InvalidRequest unless all runs of the plan are points of the experiment."""
        labels = {point.label for point in design.points(experiment)}
        for run in self.record.runs:
            if run.label not in labels:
                raise InvalidRequest(
                    f"series {self.name} plans the run {run.label[:80]!r}, which its experiment does not have; run the"
                    " experiment itself, which begins a new series"
                )

    @property
    def runs(self) -> list[RunRecord]:
        """The records of all runs that have started, in the order of the series."""
        folders = [run.folder for run in self.record.runs if run.folder]
        return [records.read(self.folder / RUNS / folder / RUN_FILE, RunRecord) for folder in folders]

    def folder_for(self, position: int) -> Path:
        """Create a folder for the run at a position; those of earlier attempts stay."""
        run = self.record.runs[position]
        stem = f"{position + 1:03d}-{run.label}-r{run.repetition}"
        attempt = 1
        while (folder := self.folder / RUNS / (stem if attempt == 1 else f"{stem}-again{attempt}")).exists():
            attempt += 1
        folder.mkdir(parents=True)
        return folder

    def next_position(self, experiment: Experiment) -> int | None:
        """The position of the next run; when all are done, more repetitions are planned where they are needed."""
        for _ in range(2):
            for position, run in enumerate(self.record.runs):
                if run.state == "waiting":
                    return position
            self._extend(experiment)
        return None

    def reopen(self) -> None:
        """Prepare to continue: runs that failed or were interrupted wait again."""
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
        """Plan another repetition of each point whose mean is not precise enough yet."""
        repetitions = experiment.run.repetitions
        if isinstance(repetitions, int):
            return
        values: dict[str, list[float]] = {}
        for record in self.runs:
            if record.state == "done" and record.summary is not None:
                value = record.summary.metric(repetitions.metric)
                values.setdefault(record.label, []).append(0.0 if value is None else value)
        imprecise = [
            point
            for point in design.points(experiment)
            if sum(run.label == point.label for run in self.record.runs) < repetitions.most
            and not precise_enough(
                values.get(point.label, []), repetitions.within, repetitions.level, repetitions.least
            )
        ]
        last = max(run.repetition for run in self.record.runs)
        for point, _ in design.order(imprecise, 1, self.record.seed + last, experiment.design.order):
            repetition = 1 + sum(run.label == point.label for run in self.record.runs)
            self.record.runs.append(Planned(point.label, point.levels, repetition))
        self.save()


def begin(runs: Path, experiment: Experiment, *, file: Path, profile: str | None, new: bool) -> Series:
    """The series to run: the newest unfinished one of the same experiment, or a new one.

    One that was imported is never continued so: its record, the fingerprint too, says what somebody else wrote there.
    """
    series_fingerprint = _fingerprint_with_behaviours(experiment, file.parent)
    if not new:
        for series in reversed(all_series(runs)):
            if series.record.fingerprint == series_fingerprint and not series.record.imported_at:
                if series.record.state != "done" and _has_behaviours_of(series, experiment, file.parent):
                    return Series(series.folder, experiment)
                break
    return _create(runs, experiment, series_fingerprint, file=file, profile=profile)


def _create(runs: Path, experiment: Experiment, series_fingerprint: str, *, file: Path, profile: str | None) -> Series:
    repetitions = experiment.run.repetitions
    order = design.order(
        design.points(experiment),
        repetitions if isinstance(repetitions, int) else repetitions.least,
        experiment.seed,
        experiment.design.order,
    )
    folder = _new_folder(runs, experiment.name)
    write_atomically(folder / EXPERIMENT_FILE, masked_toml(file.read_text()), mode=0o600)
    for name in own_behaviours(experiment):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.parent / name, folder / name)
    record = SeriesRecord(
        name=folder.name,
        experiment=experiment.name,
        profile=profile,
        fingerprint=series_fingerprint,
        settings=settings(experiment),
        seed=experiment.seed,
        runs=[Planned(point.label, point.levels, repetition) for point, repetition in order],
        started_at=records.now(),
        file=file.name,
    )
    records.write(folder / SERIES_FILE, record)
    return Series(folder, experiment)


def settings(experiment: Experiment) -> dict[str, Any]:
    """The tables of an experiment, with database URLs masked."""
    tables: dict[str, Any] = masked_tables(experiment.model_dump(mode="json"))
    return tables


def _fingerprint_with_behaviours(experiment: Experiment, folder: Path) -> str:
    """The fingerprint of an experiment and of its own behaviours."""
    hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest()[:12] for name in own_behaviours(experiment)]
    return "-".join([fingerprint(experiment), *hashes])


def _has_behaviours_of(series: Series, experiment: Experiment, folder: Path) -> bool:
    """Whether the series' own behaviours, which would be run, are those in a folder, byte for byte."""
    try:
        return all(
            (series.folder / name).read_bytes() == (folder / name).read_bytes() for name in own_behaviours(experiment)
        )
    except OSError:
        return False


def own_behaviours(experiment: Experiment) -> list[str]:
    """The files of the experiment's own behaviours, also those of levels, relative to the experiment's file."""
    behaviours = {group.behaviour for group in experiment.clients.values()}
    for factor in experiment.design.factors.values():
        for position in range(len(factor.levels)):
            behaviours |= {
                str(value) for path, value in factor.settings(position).items() if path.endswith(".behaviour")
            }
    return sorted({name.rpartition(":")[0] for name in behaviours if ":" in name})


def _new_folder(runs: Path, name: str) -> Path:
    """Create a folder with the next number for the name; other processes may do the same."""
    try:
        make_private_folder(runs)
        numbers = [
            int(match[2]) for path in runs.iterdir() if (match := _NUMBERED.fullmatch(path.name)) and match[1] == name
        ]
        number = max(numbers, default=0)
        while True:
            number += 1
            with contextlib.suppress(FileExistsError):
                (folder := runs / f"{name}-{number:04d}").mkdir(mode=0o700)
                return folder
    except OSError as error:
        raise InvalidRequest(
            f"cannot store runs in {runs}: {error.strerror}; name another folder with --runs"
        ) from error


def all_series(runs: Path) -> list[Series]:
    """All series, the oldest first, without those that this version cannot read."""
    readable = []
    for path in runs.glob(f"*/{SERIES_FILE}"):
        with contextlib.suppress(StafetteError):
            readable.append(Series(path.parent))
    return sorted(readable, key=lambda series: (series.record.started_at, series.name))


def find(runs: Path, name: str) -> Series:
    """A series by its name, by an experiment's name (the newest), or by its folder."""
    if (path := Path(name) / SERIES_FILE).is_file():
        return Series(path.parent)
    series_list = all_series(runs)
    for series in reversed(series_list):
        if name in (series.name, series.record.experiment):
            return series
    newest = f"the newest is {series_list[-1].name}" if series_list else "there are none yet; see `stafette lab run`"
    raise SeriesNotFound(f"there is no series {name} in {runs}; {newest}")


class SeriesNotFound(NotFound):
    """There is no such series."""
