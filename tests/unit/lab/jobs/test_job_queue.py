"""Who works on the queue of jobs: one process, the one that holds its lock."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

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
