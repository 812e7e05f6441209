"""A PostgreSQL server and its synchronous standby: the one can be killed or frozen, the other promoted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from stafette.database.embedded import EmbeddedPostgres
from stafette.database.embedded.server_user import ServerUser

STANDBY = "standby"
PATIENCE_SECONDS = 60.0
"""How long a step may take: longer is a failure."""


class PostgresPair:
    """Two servers on loopback; a commit waits until both have it."""

    def __init__(self, folder: Path) -> None:
        self.primary = EmbeddedPostgres(folder / "primary", tcp=True)
        self.standby = EmbeddedPostgres(folder / STANDBY, tcp=True)
        self._frozen: list[int] = []

    def start(self) -> None:
        """Start the primary, copy it, and wait until commits wait for the copy."""
        self.primary.start()
        self._copy()
        self.standby.start()
        state = f"SELECT sync_state FROM pg_stat_replication WHERE application_name = '{STANDBY}'"
        self._await(f"{state} AND state = 'streaming'", "async")
        self.query(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        self.query("SELECT pg_reload_conf()")
        self._await(state, "sync")

    def stop(self) -> None:
        """End both servers, whatever state they are in."""
        self.thaw()
        for server in (self.primary, self.standby):
            if server.pid is not None:
                _signal(_freeze(server), signal.SIGKILL)
            server.stop()

    @property
    def url(self) -> str:
        """Where to connect: to whichever of the two takes writes."""
        first, second = (urlsplit(server.tcp_url or "") for server in (self.primary, self.standby))
        return f"{first.scheme}://{first.netloc},{second.hostname}:{second.port}{first.path}"

    @property
    def new_url(self) -> str:
        """Where to connect to the promoted standby."""
        return self.standby.tcp_url or ""

    def query(self, statement: str) -> str:
        """Ask the primary, without waiting for the standby."""
        return _query(self.primary, f"{self.primary.url}&options=-csynchronous_commit%3Dlocal", statement)

    def kill(self) -> None:
        """End all processes of the primary at once, as when its machine loses power."""
        _signal(_freeze(self.primary), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all processes of the primary; connections to it stay open, and nothing answers."""
        self._frozen = _freeze(self.primary)

    def thaw(self) -> None:
        """Let what is frozen go on."""
        _signal(self._frozen, signal.SIGCONT)
        self._frozen = []

    def freeze_standby(self) -> None:
        """Stop all processes of the standby: from now on commits wait for it."""
        self._frozen = _freeze(self.standby)

    def promote(self) -> None:
        """Make a primary of the standby."""
        _query(self.standby, self.standby.url, "SELECT pg_promote()")

    def _await(self, statement: str, answer: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.query(statement) != answer:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{statement} did not become {answer}")
            time.sleep(0.05)

    def _copy(self) -> None:
        cluster, password = self.standby.data / "postgres", "postgres.password"
        self.standby.data.mkdir(mode=0o711)
        command = ["--checkpoint=fast", "--write-recovery-conf", f"--pgdata={cluster}"]
        source = f"--dbname={self.primary.tcp_url}?application_name={STANDBY}"
        subprocess.run([self.primary.bin("pg_basebackup"), *command, source], check=True, capture_output=True)
        shutil.copy(self.primary.data / password, self.standby.data / password)
        user = ServerUser.of(self.primary.data / "postgres")
        for path in (cluster, self.standby.data / password, *cluster.rglob("*")):
            os.chown(path, user.uid, user.gid, follow_symlinks=False)


def _freeze(server: EmbeddedPostgres) -> list[int]:
    """Stop a server's processes, first the one that makes the others; returns them."""
    assert server.pid is not None
    _signal([server.pid], signal.SIGSTOP)
    children = [int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]
    _signal(children, signal.SIGSTOP)
    return [*children, server.pid]


def _query(server: EmbeddedPostgres, url: str, statement: str) -> str:
    command = [str(server.bin("psql")), url, "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-Atc", statement]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


@contextmanager
def postgres_pair(folder: Path) -> Iterator[PostgresPair]:
    """A pair that ends with the test."""
    pair = PostgresPair(folder)
    try:
        pair.start()
        yield pair
    finally:
        pair.stop()
