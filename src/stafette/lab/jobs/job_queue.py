"""The queue of runs: jobs one after the other, each in a child process, so that the console stays quick.

The child holds a pipe of ours and ends when that does, whatever became of us; the queue is on disk, so the next web
process goes on where this one was. Of several web processes with the same folder, one works.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.jobs import job_records
from stafette.lab.jobs.job_progress import Live
from stafette.lab.jobs.job_records import Job, Kept

log = logging.getLogger(__name__)

LOCK = "queue.lock"
LOOK_SECONDS = 2.0
"""How often a web process that does not work the queue looks whether it may."""
GOODBYE_SECONDS = 30.0
"""How long a child may take to end what it runs when we end."""
LINE_BYTES = 16 * 2**20
MOST_WAITING = 100
TAIL = 60


class JobNotFound(InvalidRequest):
    """There is no such job."""


class JobQueue:
    """Works off the queue in a folder of runs."""

    __test__ = False  # a class whose name begins with Test is not one

    def __init__(self, runs: Path, keep_away: str) -> None:
        self.runs = runs.resolve()
        self._keep_away = keep_away
        """The console's own database, which no run may touch."""
        self._kept = Kept()
        self._lock: int | None = None
        self._more = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None
        self._live: dict[str, Live] = {}
        self._stopping: str | None = None

    # What there is

    @property
    def works(self) -> bool:
        """Whether this process works the queue."""
        return self._lock is not None

    def waiting(self) -> list[Job]:
        """Jobs in their order; the first may be under way."""
        return self._current().waiting

    def ended(self) -> list[Job]:
        """Jobs that are over, the newest first."""
        return self._current().ended

    def find(self, id: str) -> Job:  # noqa: A002
        """A job by its number."""
        kept = self._current()
        for job in (*kept.waiting, *kept.ended):
            if job.id == id:
                return job
        raise JobNotFound(f"there is no job {id}; those that ended long ago are forgotten, what they made is not")

    def live(self, id: str) -> Live | None:  # noqa: A002
        """What is known of a job under way."""
        return self._live.get(id)

    def uses(self, series: str) -> bool:
        """Whether a job is about this series."""
        return any(job.series == series for job in self.waiting())

    def _current(self) -> Kept:
        return self._kept if self.works else job_records.load(self.runs)

    # What people ask for

    def add(self, kind: job_records.Kind, experiment: str, **more: object) -> Job:
        """Put a job at the end of the queue."""
        self._check_ours()
        if len(self._kept.waiting) >= MOST_WAITING:
            raise InvalidRequest(f"{MOST_WAITING} jobs wait already; remove some, or come back later")
        job = msgspec.convert(
            {"id": str(self._kept.next), "kind": kind, "experiment": experiment, "asked_at": _now(), **more}, Job
        )
        self._kept.next += 1
        self._kept.waiting.append(job)
        self._save()
        self._more.set()
        return job

    def move_up(self, id: str) -> Job:  # noqa: A002
        """Let a job wait less than the one before it."""
        job, place = self._waiting_at(id)
        if place == 0 or self._kept.waiting[place - 1].state == "running":
            raise InvalidRequest(f"job {id} is the next one already")
        self._kept.waiting.insert(place - 1, self._kept.waiting.pop(place))
        self._save()
        return job

    def remove(self, id: str) -> Job:  # noqa: A002
        """Forget a job that waits."""
        job, place = self._waiting_at(id)
        del self._kept.waiting[place]
        self._save()
        return job

    def stop(self, id: str) -> Job:  # noqa: A002
        """Break off the job that is under way, as Ctrl-C does."""
        self._check_ours()
        job = self.find(id)
        if job.state != "running":
            raise InvalidRequest(f"job {id} is not under way")
        self._stopping = id
        if self._child is not None and self._child.returncode is None:
            self._child.send_signal(signal.SIGINT)
        return job

    def _waiting_at(self, id: str) -> tuple[Job, int]:  # noqa: A002
        self._check_ours()
        job = self.find(id)
        if job.state != "waiting":
            raise InvalidRequest(f"job {id} does not wait any more: it is {job.state}")
        return job, self._kept.waiting.index(job)

    def _check_ours(self) -> None:
        if not self.works:
            raise InvalidRequest(
                f"this web process does not work the queue in {self.runs}: another one does, or the folder cannot be"
                " written; use the other one's pages, or name another folder in STAFETTE_RUNS"
            )

    # The work

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work the queue off as long as this lasts."""
        work = asyncio.create_task(self._work())
        try:
            yield
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
            for live in self._live.values():
                live.end()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    async def _work(self) -> None:
        await self._take_over()
        while True:
            if not self._kept.waiting:
                self._more.clear()
                await self._more.wait()
            job = self._kept.waiting[0]
            try:
                await self._do(job)
            except (StafetteError, OSError) as error:
                log.error("job %s failed: %s", job.id, error)
                self._conclude(job, "failed", str(error))

    async def _take_over(self) -> None:
        """Become the one who works this queue."""
        while not self._try_to_lock():  # noqa: ASYNC110 - who holds a lock does not tell when they let go
            await asyncio.sleep(LOOK_SECONDS)

    def _try_to_lock(self) -> bool:
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.runs / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._kept = job_records.load(self.runs)
        except (OSError, StafetteError):
            os.close(lock)
            return False
        for job in self._kept.waiting:
            job.state = "waiting"  # also what was under way, which is still the first
        self._lock = lock
        return True

    async def _do(self, job: Job) -> None:
        """See one job through."""
        live = self._live[job.id] = Live()
        live.series = job.series
        job.state, job.started_at = "running", _now()
        self._save()
        child = self._child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "stafette.lab.jobs.job_process",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=self.runs, env={name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")},
            start_new_session=True, limit=LINE_BYTES,
        )  # fmt: skip
        assert child.stdin is not None
        order = {"job": msgspec.to_builtins(job), "runs": str(self.runs), "keep_away": self._keep_away}
        child.stdin.write(json.dumps(order).encode() + b"\n")
        grumbling = asyncio.create_task(self._overhear(child, live))
        try:
            if self._stopping == job.id:  # asked for while the child was being started
                child.send_signal(signal.SIGINT)
            last = await self._follow(child, job, live)
            await child.wait()
            await grumbling
        except asyncio.CancelledError:  # we end, and the job goes on another time
            await _dismissed(child)
            raise
        finally:
            grumbling.cancel()
            self._child = None
        if self._stopping == job.id:
            self._conclude(job, "stopped", "it was stopped; its series can go on where it was")
        elif last is None:
            why = live.lines[-1] if live.lines else f"exit code {child.returncode}"
            self._conclude(job, "failed", f"the process of the job ended: {why.removeprefix('stafette: ')}")
        else:
            self._conclude(job, last["state"], last["sentence"])

    async def _follow(
        self, child: asyncio.subprocess.Process, job: Job, live: Live
    ) -> dict[str, job_records.State] | None:
        """Hear the child out; its last word, if it came to that."""
        assert child.stdout is not None
        last = None
        while line := await child.stdout.readline():
            event = json.loads(line)
            if event["kind"] == "end":
                last = event
            else:
                live.hear(event)
            if event["kind"] == "series":
                job.series = event["name"]
                self._save()
        return last

    async def _overhear(self, child: asyncio.subprocess.Process, live: Live) -> None:
        assert child.stderr is not None
        while line := await child.stderr.readline():
            if said := line.decode(errors="replace").strip():
                live.say(said)

    def _conclude(self, job: Job, state: job_records.State, sentence: str) -> None:
        live = self._live.pop(job.id, None)
        job.state, job.sentence, job.ended_at = state, sentence, _now()
        job.tail = live.lines[-TAIL:] if live else []
        self._stopping = None
        self._kept.waiting.remove(job)
        self._kept.ended = [job, *self._kept.ended][: job_records.MOST_ENDED]
        self._save()
        if live:
            live.end()

    def _save(self) -> None:
        try:
            job_records.save(self.runs, self._kept)
        except OSError as error:
            raise StafetteError(f"cannot write the queue of runs in {self.runs}: {error.strerror}") from error


async def _dismissed(child: asyncio.subprocess.Process) -> None:
    """Let a child end everything; it knows by its input's end."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.close()
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            while await child.stdout.readline():
                pass
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
