"""Runs small experiments for tests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stafette.lab.experiment import experiment_file
from stafette.lab.running import runner
from stafette.lab.running.runner import Progress
from stafette.lab.series import series_folder
from stafette.runs.records import RunRecord

QUICK = "warm_up = 0.3\nduration = {duration}\ncool_down = 0.2\nrepetitions = {repetitions}\n"


class Laboratory:
    """A folder with experiments and runs, over one database."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.database = database
        self.progress: list[Progress] = []
        self._measuring = asyncio.Event()

    def begin(self, text: str, *, new: bool = False) -> series_folder.Series:
        """A series of an experiment that uses the database, unless it says otherwise."""
        file = self.folder / "trial.toml"
        if "[system]" not in text:
            text = f"[system]\n{text}"
        if "database =" not in text:
            text = text.replace("[system]\n", f'[system]\ndatabase = "{self.database}"\n')
        file.write_text(text)
        return series_folder.begin(self.runs, experiment_file.read(file), file=file, profile=None, new=new)

    def report(self, progress: Progress) -> None:
        """Hear how far a series is."""
        self.progress.append(progress)
        if progress.phase == "measure":
            self._measuring.set()

    async def under_load(self, making: asyncio.Task[None]) -> None:
        """Wait until a run in the making measures; it must not have ended before."""
        waiting = asyncio.create_task(self._measuring.wait())
        await asyncio.wait({waiting, making}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert not making.done()

    async def run(self, text: str) -> list[RunRecord]:
        """Make all runs of an experiment."""
        begun = self.begin(text)
        await runner.run_series(begun, self.report)
        return begun.runs


def trial(groups: str, *, duration: float = 1.0, repetitions: int | str = 1, more: str = "", system: str = "") -> str:
    """The text of a short experiment."""
    times = QUICK.format(duration=duration, repetitions=repetitions)
    return f"[system]\n{system}\n[preload]\nqueues = 3\n[run]\n{times}\n{groups}\n{more}"


PAUSE = "think_time = 0.02\n"
"""Between requests: nothing here needs a machine that is busy, and other tests run on it."""
PAIR = "".join(f'[clients.{name}]\nbehaviour = "{name}"\ncount = 3\n{PAUSE}' for name in ("alice", "bob"))


def checks(record: RunRecord) -> dict[str, bool]:
    """Whether each check holds."""
    return {check.name: check.ok for check in record.checks}


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of Parquet files in a folder, or of one."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return [row for file in files for row in pq.read_table(file).to_pylist()]
