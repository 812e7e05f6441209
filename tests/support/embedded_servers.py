"""What tests do with embedded servers."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stafette.database.embedded import EmbeddedPostgres
from stafette.database.embedded.server_user import ServerUser

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
as_ordinary_user = pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user")
with_postgres_15 = pytest.mark.skipif(not POSTGRES_15.exists(), reason=f"needs PostgreSQL 15 in {POSTGRES_15}")

Make = Callable[..., EmbeddedPostgres]


def query(server: EmbeddedPostgres, statement: str) -> str:
    return query_at(server, server.url, statement)


def query_at(server: EmbeddedPostgres, url: str, statement: str) -> str:
    command = [str(server.bin("psql")), url, "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-Atc", statement]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def process_children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill_and_wait(pid: int) -> None:
    death = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([death], [], [], 30)[0]
    finally:
        os.close(death)


@contextmanager
def stranger(user: ServerUser) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the server's user that has nothing to do with PostgreSQL."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=user.uid, group=user.gid) as process:
        yield process
        process.communicate()


def assert_settings_apply(server: EmbeddedPostgres) -> None:
    ours = "FROM pg_file_settings WHERE sourcefile LIKE '%/stafette.conf'"
    assert query(server, f"SELECT name, error {ours} AND (error IS NOT NULL OR NOT applied)") == ""
    assert int(query(server, f"SELECT count(*) {ours}")) > 20
