"""Who works on the queue of jobs: one process, the one that holds its lock."""

from __future__ import annotations

import asyncio
import errno
import fcntl
from pathlib import Path

import pytest

from stafette.lab.jobs import job_records
from stafette.lab.jobs.job_queue import JobQueue


def test_a_lock_that_cannot_be_had_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_file: object, _kind: int) -> None:
        raise OSError(errno.ENOLCK, "no locks here")  # as on some network file systems

    before = _open_files()
    queue = JobQueue(tmp_path, "postgresql://nowhere")
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        assert not queue._try_to_lock()
    assert _open_files() == before
    assert queue._try_to_lock()
    assert not JobQueue(tmp_path, "postgresql://nowhere")._try_to_lock()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_queue_that_cannot_be_saved_goes_on(tmp_path: Path) -> None:
    queue = JobQueue(tmp_path, "postgresql://nowhere")
    async with queue.working():
        while not queue.works:
            await asyncio.sleep(0)
        for number in (1, 2):
            queue.add("analyse", "made", series=f"made-000{number}")
        (tmp_path / job_records.FILE).unlink()
        (tmp_path / job_records.FILE).mkdir()
        while queue.waiting():
            await asyncio.sleep(0)

        assert [(job.id, job.state) for job in queue.ended()] == [("2", "failed"), ("1", "failed")]
