"""One job of the queue, in a process of its own: tells how it goes in lines of JSON, and ends when its input does.

The first line of the input is the order; after that it is a lifeline, whose end means that the web process is gone.
Then, and on a signal, the runs are broken off as by Ctrl-C, and nothing stays running.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from stafette.database import laboratory
from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.experiment import design, experiment_file
from stafette.lab.experiment.experiment_file import Experiment
from stafette.lab.jobs.job_records import Job
from stafette.lab.running import runner
from stafette.lab.series import run_views, series_folder
from stafette.lab.series.series_folder import Series
from stafette.pipeline import default_analysis
from stafette.runs.layout import EXPERIMENT_FILE

BROKEN_OFF = 130


class Order(msgspec.Struct):
    """What to do, and where."""

    job: Job
    runs: str
    keep_away: str
    """The database that nobody may touch."""


class _Work:
    """The job under way."""

    def __init__(self, order: Order, out: int) -> None:
        self._order = order
        self._out = out
        self._asked = 0
        self._task = asyncio.current_task()
        self._analysing = False
        self._last: runner.Progress | None = None

    def break_off(self) -> None:
        """End what runs; when asked again, or in the midst of an analysis, at once."""
        self._asked += 1
        if self._asked > 1 or self._analysing:
            os._exit(BROKEN_OFF)  # those whom we started end when we do
        assert self._task is not None
        self._task.cancel()

    async def do(self) -> tuple[str, str]:
        """Do it; the state and a sentence about it."""
        job = self._order.job
        if job.kind == "analyse":
            found = Series(Path(self._order.runs) / str(job.series))
            await self._analyse(found.folder)
            return "done", f"{found.name} is analysed"
        chosen = self._chosen()
        await _keep_away(chosen.experiment, self._order.keep_away)
        self._tell("series", name=chosen.name)
        await runner.run_series(chosen, lambda progress: self._report(chosen, progress))
        self._tell_of_last(chosen)
        sentence = _outcome(chosen)
        if job.analyse and chosen.record.state == "done":
            try:
                await self._analyse(chosen.folder)
            except StafetteError as error:
                sentence += f"; not analysed: {error}"
        return "done" if chosen.record.state == "done" else "failed", sentence

    def _chosen(self) -> Series:
        """The series that this job has begun, or the one that the laboratory would go on with, or a new one."""
        job, place = self._order.job, Path(self._order.runs)
        if job.series is not None:
            folder = place / job.series
            text, name = (folder / EXPERIMENT_FILE).read_text(), Series(folder).record.experiment
            if f":{series_folder.STARS}@" not in text:
                return Series(folder, experiment_file.parse(text, folder=folder, profile=job.profile, name=name))
        if job.file is None:
            raise InvalidRequest("the password of its database was not kept; run its experiment again instead")
        file = Path(job.file)
        read = experiment_file.read(file, job.profile)
        return series_folder.begin(place, read, file=file, profile=job.profile, new=job.new and job.series is None)

    async def _analyse(self, folder: Path) -> None:
        self._tell("phase", phase="analysis")
        self._analysing = True
        report = await asyncio.to_thread(default_analysis.report, folder, self._say)
        self._analysing = False
        self._say(f"the report is {report}")

    def _report(self, chosen: Series, progress: runner.Progress) -> None:
        if self._asked and progress.phase == "prepare":  # an error while one run was ended must not let the next begin
            raise asyncio.CancelledError
        if self._last is not None and progress.place != self._last.place:
            self._tell_of_last(chosen)
        self._last = progress
        planned = chosen.record.runs[progress.place - 1]
        told = dataclasses.asdict(progress)
        self._tell("progress", at=time.time(), label=planned.label, repetition=planned.repetition, **told)

    def _tell_of_last(self, chosen: Series) -> None:
        if self._last is None:
            return
        view = run_views.view(chosen, self._last.place)
        name = f"{view.run} of {len(chosen.record.runs)}: {view.label}, repetition {view.repetition}"
        throughput, mean = view.metrics["throughput"], view.metrics["mean_ms"]
        figures = "" if throughput is None or mean is None else f": {throughput:,.0f} requests/s, {mean:,.2f} ms"
        self._say(f"{name}{figures}" + (f", but {view.problem}" if view.problem else ""))

    def _say(self, line: str) -> None:
        self._tell("said", line=line)

    def _tell(self, kind: str, **more: Any) -> None:
        tell(self._out, kind, **more)


def tell(out: int, kind: str, **more: Any) -> None:
    """A line of JSON for the web process, if it still listens."""
    data = json.dumps({"kind": kind, **more}).encode() + b"\n"
    try:
        while data:
            data = data[os.write(out, data) :]
    except BrokenPipeError:
        pass  # the end of the lifeline says the same


async def _keep_away(chosen: Experiment | None, own: str) -> None:
    """Refuse an experiment that would empty the database that the console works with, under whatever address."""
    assert chosen is not None
    named = {point.experiment.system.database for point in design.points(chosen)}
    for url in sorted(url for url in named if "://" in url):
        if await laboratory.identity(url) == await laboratory.identity(own):
            raise InvalidRequest(
                "`system.database` names the database of this console, which a run would empty; name another"
            )


def _outcome(chosen: Series) -> str:
    views = run_views.views(chosen)
    done = [view for view in views if view.state == "done"]
    valid, missed = sum(view.valid is True for view in done), sum(bool(view.missed) for view in done)
    sentence = f"{len(done)} of {len(views)} runs are done, {valid} of them valid"
    return sentence + (f"; {missed} missed a threshold" if missed else "")


async def _work(order: Order, out: int) -> int:
    work = _Work(order, out)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.break_off)

    def listen() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            work.break_off()

    loop.add_reader(sys.stdin.fileno(), listen)
    try:
        state, sentence = await work.do()
    except asyncio.CancelledError:
        tell(out, "end", state="stopped", sentence="it was broken off")
        return BROKEN_OFF
    except (StafetteError, OSError) as error:
        tell(out, "end", state="failed", sentence=str(error))
        return 1
    tell(out, "end", state=state, sentence=sentence)
    return 0


def _first_line() -> bytes:
    """The order, and not a byte of what comes after it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            raise SystemExit(BROKEN_OFF)
        line += byte
    return bytes(line)


def main() -> None:
    """Do the job."""
    order = msgspec.json.decode(_first_line(), type=Order)
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Java prints is no line of ours
    sys.exit(asyncio.run(_work(order, out)))


if __name__ == "__main__":
    main()
