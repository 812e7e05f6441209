"""The runs of one job of the queue, in a process of its own, which sends events as lines of JSON.

The first line of its input is the order. The end of the input means that the web process is gone. Then, and on a
signal, the runs are interrupted as by Ctrl-C, and nothing stays running.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from stafette.database import laboratory, masking
from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.experiment import design, experiment_file
from stafette.lab.experiment.experiment_file import Experiment
from stafette.lab.jobs.job_events import INTERRUPTED, send_event, take_output
from stafette.lab.jobs.job_records import Job
from stafette.lab.running import runner
from stafette.lab.series import run_views, series_folder
from stafette.lab.series.series_folder import Series
from stafette.runs.layout import EXPERIMENT_FILE


class Order(msgspec.Struct):
    """The job, and its surroundings."""

    job: Job
    runs: str
    protected_database: str = msgspec.field(name="keep_away")
    """The console's own database, which no run may use."""


class _JobRun:
    """The job of this process."""

    def __init__(self, order: Order, out: int) -> None:
        self._order = order
        self._out = out
        self._interrupts = 0
        self._task = asyncio.current_task()
        self._last: runner.Progress | None = None

    def interrupt(self) -> None:
        """Interrupt the job; the second time, exit at once."""
        self._interrupts += 1
        if self._interrupts > 1:
            os._exit(INTERRUPTED)  # our children end when we do
        assert self._task is not None
        self._task.cancel()

    async def run(self) -> tuple[str, str]:
        """Run the job; returns its state and a detail."""
        series = self._find_series()
        await _check_databases(series.experiment, self._order.protected_database)
        self._send_event("series", name=series.name)
        await runner.run_series(series, lambda progress: self._report(series, progress))
        self._log_last_run(series)
        return "done" if series.record.state == "done" else "failed", _outcome(series)

    def _find_series(self) -> Series:
        """The series of this job, or the one that `stafette lab run` would continue, or a new one."""
        job, runs = self._order.job, Path(self._order.runs)
        if job.series is not None:
            folder = runs / job.series
            text, name = (folder / EXPERIMENT_FILE).read_text(), Series(folder).record.experiment
            if masking.MASK not in text:
                return Series(folder, experiment_file.parse(text, folder=folder, profile=job.profile, name=name))
        if job.file is None:
            raise InvalidRequest("the password of its database is not stored; run its experiment again instead")
        file = Path(job.file)
        experiment = experiment_file.read(file, job.profile)
        return series_folder.begin(runs, experiment, file=file, profile=job.profile, new=job.new and job.series is None)

    def _report(self, series: Series, progress: runner.Progress) -> None:
        if self._interrupts and progress.phase == "prepare":  # a run that failed at the interrupt: start no other
            raise asyncio.CancelledError
        if self._last is not None and progress.place != self._last.place:
            self._log_last_run(series)
        self._last = progress
        planned = series.record.runs[progress.place - 1]
        fields = dataclasses.asdict(progress)
        self._send_event("progress", at=time.time(), label=planned.label, repetition=planned.repetition, **fields)

    def _log_last_run(self, series: Series) -> None:
        if self._last is None:
            return
        view = run_views.view(series, self._last.place)
        name = f"{view.run} of {len(series.record.runs)}: {view.label}, repetition {view.repetition}"
        throughput, mean = view.metrics["throughput"], view.metrics["mean_ms"]
        metrics = "" if throughput is None or mean is None else f": {throughput:,.0f} requests/s, {mean:,.2f} ms"
        self._log(f"{name}{metrics}" + (f", but {view.problem}" if view.problem else ""))

    def _log(self, line: str) -> None:
        self._send_event("said", line=line)

    def _send_event(self, kind: str, **fields: Any) -> None:
        send_event(self._out, kind, **fields)


async def _check_databases(experiment: Experiment | None, protected_database: str) -> None:
    """Refuse an experiment that would empty the console's own database, under any URL."""
    assert experiment is not None
    databases = {point.experiment.system.database for point in design.points(experiment)}
    for url in sorted(url for url in databases if "://" in url):
        if await laboratory.identity(url) == await laboratory.identity(protected_database):
            raise InvalidRequest(
                "`system.database` is the database of this console, which a run would empty; use another one"
            )


def _outcome(series: Series) -> str:
    views = run_views.views(series)
    done = [view for view in views if view.state == "done"]
    valid, missed = sum(view.valid is True for view in done), sum(bool(view.missed) for view in done)
    detail = f"{len(done)} of {len(views)} runs are done, {valid} of them valid"
    return detail + (f"; {missed} missed a threshold" if missed else "")


async def _work(order: Order, out: int) -> int:
    work = _JobRun(order, out)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.interrupt)

    def on_input() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            work.interrupt()

    loop.add_reader(sys.stdin.fileno(), on_input)
    try:
        state, detail = await work.run()
    except asyncio.CancelledError:
        send_event(out, "end", state="stopped", sentence="the job was interrupted")
        return INTERRUPTED
    except (StafetteError, OSError) as error:
        send_event(out, "end", state="failed", sentence=str(error))
        return 1
    send_event(out, "end", state=state, sentence=detail)
    return 0


def _first_line() -> bytes:
    """The order, without a byte of what follows."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            raise SystemExit(INTERRUPTED)
        line += byte
    return bytes(line)


def main() -> None:
    """Run the job of this process."""
    order = msgspec.json.decode(_first_line(), type=Order)
    sys.exit(asyncio.run(_work(order, take_output())))


if __name__ == "__main__":
    main()
