"""The job queue: runs jobs one after the other, each in a child process, so that the console stays responsive.

The child reads a pipe from us and ends when the pipe does, even if we are killed. The queue is on disk, so the next web
process continues it. Of several web processes with the same folder, one works the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stafette.errors import InvalidRequest, NotFound, StafetteError
from stafette.files import try_lock
from stafette.lab.experiment.reach import NOWHERE, Reach
from stafette.lab.jobs import job_records
from stafette.lab.jobs.job_child import EventHandler, JobChild
from stafette.lab.jobs.job_progress import JobProgress
from stafette.lab.jobs.job_records import Job, QueueState
from stafette.lab.jobs.warm_analysis import WarmAnalysis

log = logging.getLogger(__name__)

LOCK = "queue.lock"
LOCK_SECONDS = 2.0
"""How often a web process that does not work the queue tries to lock it."""
MOST_WAITING = 100
TAIL_LINES = 60


class JobNotFound(NotFound):
    """There is no such job."""


class JobQueue:
    """Runs the jobs of the queue in a folder of runs."""

    def __init__(self, runs: Path, protected_database: str, reach: Reach = NOWHERE) -> None:
        self.runs = runs.resolve()
        self._protected_database = protected_database
        """The console's own database, which no run may use."""
        self._reach = reach
        self._state = QueueState()
        self._lock: int | None = None
        self._wakeup = asyncio.Event()
        self._analysis = WarmAnalysis(self.runs)
        self._interrupt: Callable[[], None] | None = None
        """Interrupts the child that works on the running job."""
        self._progress: dict[str, JobProgress] = {}
        self._stop_requested: str | None = None

    # State

    @property
    def works(self) -> bool:
        """Whether this process works the queue."""
        return self._lock is not None

    def waiting(self) -> list[Job]:
        """Jobs that wait, in order; the first may be running."""
        return self._current().waiting

    def ended(self) -> list[Job]:
        """Jobs that have ended, the newest first."""
        return self._current().ended

    def find(self, id: str) -> Job:  # noqa: A002
        """A job by its id."""
        state = self._current()
        for job in (*state.waiting, *state.ended):
            if job.id == id:
                return job
        raise JobNotFound(f"there is no job {id}; jobs that ended long ago are not listed, but their series are")

    def progress(self, id: str) -> JobProgress | None:  # noqa: A002
        """The progress of a running job; None if it is not running."""
        return self._progress.get(id)

    def uses(self, series: str) -> bool:
        """Whether a waiting or running job uses this series."""
        return any(job.series == series for job in self.waiting())

    def _current(self) -> QueueState:
        return self._state if self.works else job_records.load(self.runs)

    # Changes

    def add(self, kind: job_records.Kind, experiment: str, **fields: object) -> Job:
        """Put a job at the end of the queue."""
        self._check_worker()
        if len(self._state.waiting) >= MOST_WAITING:
            raise InvalidRequest(f"{MOST_WAITING} jobs wait already; remove some, or try again later")
        job = msgspec.convert(
            {"id": str(self._state.next), "kind": kind, "experiment": experiment, "asked_at": _now(), **fields}, Job
        )
        self._state.next += 1
        self._state.waiting.append(job)
        self._save()
        self._wakeup.set()
        return job

    def move_up(self, id: str) -> Job:  # noqa: A002
        """Move a job before the one before it."""
        job, position = self._find_waiting(id)
        if position == 0 or self._state.waiting[position - 1].state == "running":
            raise InvalidRequest(f"job {id} is the next one already")
        self._state.waiting.insert(position - 1, self._state.waiting.pop(position))
        self._save()
        return job

    def remove(self, id: str) -> Job:  # noqa: A002
        """Remove a job that waits."""
        job, position = self._find_waiting(id)
        del self._state.waiting[position]
        self._save()
        return job

    def stop(self, id: str) -> Job:  # noqa: A002
        """Interrupt the running job, as Ctrl-C does."""
        self._check_worker()
        job = self.find(id)
        if job.state != "running":
            raise InvalidRequest(f"job {id} is not running")
        self._stop_requested = id
        if self._interrupt is not None:
            self._interrupt()
        return job

    def _find_waiting(self, id: str) -> tuple[Job, int]:  # noqa: A002
        self._check_worker()
        job = self.find(id)
        if job.state != "waiting":
            raise InvalidRequest(f"job {id} is {job.state}, not waiting")
        return job, self._state.waiting.index(job)

    def _check_worker(self) -> None:
        if not self.works:
            raise InvalidRequest(
                f"this web process does not work the queue in {self.runs}: another one does, or the folder cannot be"
                " written; use the other one's pages, or name another folder in STAFETTE_RUNS"
            )

    # Running jobs

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the jobs of the queue during the block."""
        work = asyncio.create_task(self._work())
        try:
            yield
        finally:
            work.cancel()
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await work
            finally:
                await self._analysis.close()
                for progress in self._progress.values():
                    progress.end()
                if self._lock is not None:
                    os.close(self._lock)
                    self._lock = None

    async def _work(self) -> None:
        await self._wait_for_lock()
        while True:
            if not self._state.waiting:
                self._wakeup.clear()
                await self._wakeup.wait()
            job = self._state.waiting[0]
            try:
                await self._run_job(job)
            except (StafetteError, OSError) as error:
                log.error("job %s failed: %s", job.id, error)
                self._end_job(job, "failed", str(error))

    async def _wait_for_lock(self) -> None:
        """Wait until this process may work the queue."""
        while not self._try_to_lock():  # noqa: ASYNC110 - a file lock sends no signal when it is released
            await asyncio.sleep(LOCK_SECONDS)

    def _try_to_lock(self) -> bool:
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.runs / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        with contextlib.suppress(OSError, StafetteError):  # a queue that cannot be read is not ours to overwrite
            if try_lock(lock):
                self._state = job_records.load(self.runs)
                for job in self._state.waiting:
                    job.state = "waiting"  # also the job that was running, which is still the first
                self._lock = lock
                return True
        os.close(lock)
        return False

    async def _run_job(self, job: Job) -> None:
        """Run one job to its end."""
        progress = self._progress[job.id] = JobProgress()
        progress.series = job.series
        job.state, job.started_at = "running", _now()
        self._save()

        def handle(event: Mapping[str, Any]) -> None:
            progress.handle_event(event)
            if event["kind"] == "series":
                job.series = event["name"]
                self._save()

        try:
            state, detail = await self._runs_of(job, handle) if job.kind == "run" else ("done", "")
            if state == "done" and (job.kind == "analyse" or job.analyse) and self._stop_requested != job.id:
                state, detail = await self._analysis_of(job, handle, detail)
        except StafetteError as error:
            state, detail = "failed", str(error)
        if self._stop_requested == job.id:
            state, detail = "stopped", "the job was stopped; its series can be continued"
        self._end_job(job, state, detail)

    async def _runs_of(self, job: Job, handle: EventHandler) -> tuple[job_records.State, str]:
        """Do the runs of a job, in a child of their own; returns its state and a detail."""
        child = await JobChild.start("stafette.lab.jobs.job_process", self.runs)
        self._interrupt = child.interrupt
        order = {"job": msgspec.to_builtins(job), "runs": str(self.runs), "keep_away": self._protected_database}
        order["reach"] = msgspec.to_builtins(self._reach)
        try:
            if self._stop_requested == job.id:  # requested while the child was starting
                child.interrupt()
            end = await child.work(order, handle)
        finally:  # also when we end; the next web process continues the job
            self._interrupt = None
            await child.close()
        return end["state"], end["sentence"]

    async def _analysis_of(self, job: Job, handle: EventHandler, detail: str) -> tuple[job_records.State, str]:
        """Analyse the series of a job; a failed analysis does not undo what is done."""
        assert job.series is not None
        handle({"kind": "phase", "phase": "analysis"})
        self._interrupt = self._analysis.interrupt
        try:
            end = await self._analysis.analyse(self.runs / job.series, handle)
        except StafetteError as error:
            end = {"state": "failed", "sentence": str(error)}
        finally:
            self._interrupt = None
        if job.kind == "analyse":
            return end["state"], end["sentence"]
        return "done", detail if end["state"] == "done" else f"{detail}; not analysed: {end['sentence']}"

    def _end_job(self, job: Job, state: job_records.State, detail: str) -> None:
        progress = self._progress.pop(job.id, None)
        job.state, job.sentence, job.ended_at = state, detail, _now()
        job.tail = progress.lines[-TAIL_LINES:] if progress else []
        self._stop_requested = None
        self._state.waiting.remove(job)
        self._state.ended = [job, *self._state.ended][: job_records.MOST_ENDED]
        if progress:
            progress.end()
        try:
            self._save()
        except StafetteError as error:  # the queue goes on; its next change is saved with this one
            log.error("%s", error)

    def _save(self) -> None:
        try:
            job_records.save(self.runs, self._state)
        except OSError as error:
            raise StafetteError(f"cannot write the job queue in {self.runs}: {error.strerror}") from error


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
