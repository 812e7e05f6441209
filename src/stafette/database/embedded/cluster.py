"""PostgreSQL in a data folder: made, started and stopped by us, with nothing to install or configure.

One idea carries it: every process of the server inherits an open, locked file. The kernel frees that lock when the last
of them dies, so whether the server lives is a fact to ask for, whatever a stale pid file says. The server is detached
and outlives whoever started it. ::

    DATA/postgres/           the cluster; postgres.new while it is being made
    DATA/postgres.log        what the server said
    DATA/postgres.lock       held by whoever starts or stops the server
    DATA/postgres.alive      held by the server's processes
    DATA/postgres.password   for TCP
    /tmp/stafette-UID/HASH/  the Unix socket, in a short path that only the server's user can enter (socket_folders.py)
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stafette.database.embedded import binaries as wheel
from stafette.database.embedded.server_user import ServerUser
from stafette.database.embedded.socket_folders import digest, make_socket_root, socket_root
from stafette.errors import InternalError, InvalidRequest, Unavailable
from stafette.files import make_private_folder, try_lock

NAME = "stafette"  # of the role and of the database
SETTINGS = Path(__file__).with_name("postgresql.conf")
LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5432  # without TCP merely a part of the socket's name
MEBIBYTE = 1024 * 1024
ACCEPTS, SILENT = 0, 2  # exit statuses of pg_isready; 1 is a server that starts or stops
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 5.0  # after which a wait is worth a line in the log

log = logging.getLogger(__name__)


class Postmaster(NamedTuple):
    """What a server says of itself in postmaster.pid."""

    pid: int
    port: str
    socket_folder: str
    host: str
    status: str


class Inherited(NamedTuple):
    """The open files that each of the server's processes gets."""

    alive: BinaryIO
    log: BinaryIO


class EmbeddedPostgres:
    """One PostgreSQL server and its data folder."""

    def __init__(self, data: Path, *, tcp: bool = False, host: str = LOOPBACK, binaries: Path | None = None) -> None:
        self.data = data.resolve()
        self.log = self.data / "postgres.log"
        self._cluster = self.data / "postgres"
        self._alive_file = self.data / "postgres.alive"
        self._password_file = self.data / "postgres.password"
        self._tcp = tcp
        self._host = host
        self._given_binaries = binaries.resolve() if binaries else None

    def start(self) -> None:
        """Start the server unless it runs, and wait until it accepts connections; the first time, make the cluster."""
        with self._locked():
            if self._becomes_ready():
                return
            log_size = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            if not self._becomes_ready():
                raise self._failure(log_size)

    def stop(self) -> None:
        """Stop the server if it runs, cancelling its statements, and wait until it is gone."""
        with self._os_errors_translated():
            if not self._cluster.exists():
                return
        with self._locked():
            if pid := self.pid:
                # INT asks for the "fast" shutdown. Sent as the server's user, it cannot hit anybody else's process.
                self._user.run([self.bin("pg_ctl"), "kill", "INT", str(pid)])
                _wait_until(lambda: not _lives(pid), f"PostgreSQL in {self.data} to stop")
            _wait_until(lambda: not self._alive(), f"the processes of PostgreSQL in {self.data} to end")
            with suppress(OSError):  # a killed server leaves its socket in there; the next start clears it away
                self._socket_folder.rmdir()

    @property
    def running(self) -> bool:
        """Whether the server lives, ready or not."""
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """The id of the server's first process; None when it is not running."""
        postmaster = self._postmaster()
        return postmaster.pid if postmaster else None

    @property
    def url(self) -> str:
        """Where to connect, through the Unix socket."""
        server = self._running_postmaster()
        return f"postgresql://{NAME}@/{NAME}?host={server.socket_folder}&port={server.port}"

    @property
    def tcp_url(self) -> str | None:
        """Where to connect through TCP, password included; None when the server was started without."""
        server = self._running_postmaster()
        if not server.host:
            return None
        with self._os_errors_translated():
            return f"postgresql://{NAME}:{self._password_file.read_text()}@{server.host}:{server.port}/{NAME}"

    def bin(self, name: str) -> Path:
        """Find a program of this PostgreSQL, such as psql."""
        path = self._binaries / name
        if not path.exists():
            raise InternalError(f"PostgreSQL's program {name} is missing from {self._binaries}; install it again")
        return path

    # State

    def _alive(self) -> bool:
        """Tell whether any process of the server lives, even one that a killed postmaster left behind."""
        try:
            with self._alive_file.open("rb") as file:
                return not try_lock(file, shared=True)
        except FileNotFoundError:
            return False

    def _postmaster(self) -> Postmaster | None:
        with self._os_errors_translated():
            postmaster = self._read_pid_file() if self._alive() else None
            return postmaster if postmaster and _lives(postmaster.pid) else None

    def _running_postmaster(self) -> Postmaster:
        if server := self._postmaster():
            return server
        raise Unavailable(f"PostgreSQL in {self.data} is not running; start it first")

    def _becomes_ready(self) -> bool:
        """Wait until the server, if any process of it lives, accepts connections or is gone; tell which."""
        ready = False

        def is_ready_or_gone() -> bool:
            nonlocal ready
            ready = self._ready()
            return ready or not self._alive()

        _wait_until(is_ready_or_gone, f"PostgreSQL in {self.data} to recover or to end")
        return ready

    def _ready(self) -> bool:
        server = self._postmaster()
        return server is not None and server.status == "ready" and self._ping(server) == ACCEPTS

    def _ping(self, server: Postmaster) -> int:
        """Ask the server itself: one that was killed this instant still looks alive."""
        address = ("--host", server.socket_folder, "--port", server.port, "--username", NAME, "--dbname", NAME)
        return self._user.run([self.bin("pg_isready"), *address])

    def _read_pid_file(self) -> Postmaster | None:
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        lines += [""] * (8 - len(lines))  # a starting server writes them one after the other
        pid, _data, _since, port, socket_folder, host, _memory, status = lines[:8]
        return Postmaster(int(pid), port, socket_folder, host, status.strip()) if pid else None

    @property
    def _user(self) -> ServerUser:
        return ServerUser.of(self._cluster)

    @property
    def _socket_folder(self) -> Path:
        return socket_root(self.data, self._user) / digest(self.data)

    @cached_property
    def _binaries(self) -> Path:
        folder = self._given_binaries or wheel.in_wheel()
        if self._user.reaches(folder / "postgres"):
            return folder
        if self._given_binaries:
            raise InvalidRequest(f"user {self._user.uid} cannot run {folder / 'postgres'}; use another PostgreSQL")
        return wheel.readable_copy()

    # Starting

    def _launch(self) -> None:
        with self._user.open(self._alive_file) as alive, self._user.open(self.log) as output:
            inherited = Inherited(alive, output)
            _wait_until(lambda: try_lock(alive), f"processes of an earlier PostgreSQL in {self.data} to end")
            if self._cluster.exists():
                self._leave_nobody()
                self._check_version()
                self._remove_stale_pid_file()
            else:
                self._make_cluster(inherited)
            self._make_socket_folder()
            self._write_settings()
            # pg_ctl gives the server a session of its own, beyond Ctrl-C, and no parent that would have to reap it.
            self._run(inherited, self._cluster, "pg_ctl", "start", "--no-wait", "--silent")

    def _make_cluster(self, inherited: Inherited) -> None:
        """Make it under another name, so that an interrupted attempt is never taken for a cluster."""
        user, unfinished = self._user, self.data / "postgres.new"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        if not self._password_file.exists():
            user.write(self._password_file, secrets.token_urlsafe())
        user.make_private(unfinished)
        options = f"--username={NAME} --encoding=UTF8 --locale=C --data-checksums --auth=trust --no-instructions"
        self._run(inherited, unfinished, "initdb", *options.split())
        statements = f"ALTER ROLE {NAME} PASSWORD '{self._password_file.read_text()}';\nCREATE DATABASE {NAME};\n"
        self._run(inherited, unfinished, "postgres", "--single", "-c", "exit_on_error=on", "postgres", text=statements)
        for counters in (unfinished / "pg_stat").iterdir():
            counters.unlink()  # each second autovacuum looks into every database that has some: let that be ours alone
        main_settings = unfinished / "postgresql.conf"
        user.write(main_settings, main_settings.read_text() + "\ninclude 'stafette.conf'\n")
        unfinished.rename(self._cluster)
        _sync(self.data)  # else a power cut could bring back the unfinished name, and the next start would remove it

    def _leave_nobody(self) -> None:
        """Take the cluster from `nobody`, as whom root ran it where there was no better user."""
        if os.geteuid() == 0 and self._user.is_nobody:
            user = ServerUser.candidate()
            for path in (self._alive_file, self.log, self._password_file, self.data / "postgres.lock", self._cluster):
                if path.exists():
                    user.adopt(path)

    def _check_version(self) -> None:
        version_file = self._cluster / "PG_VERSION"
        if not version_file.exists():
            return  # the cluster is damaged, and the server will say so
        theirs = version_file.read_text().strip()
        answer = subprocess.run([self.bin("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
        ours = re.sub(r"\D*(\d+).*", r"\1", answer.strip())
        if theirs != ours:
            raise InvalidRequest(
                f"the data in {self.data} is of PostgreSQL {theirs}, but this is PostgreSQL {ours}; "
                f"use version {theirs}, or dump with it and restore into another data folder"
            )

    def _remove_stale_pid_file(self) -> None:
        """Remove what a killed server left: PostgreSQL would not start if another process had its id by now."""
        stale = self._read_pid_file()
        if stale and self._ping(stale) != SILENT:
            raise Unavailable(f"PostgreSQL in {self.data} was started by other means; stop it with pg_ctl first")
        (self._cluster / "postmaster.pid").unlink(missing_ok=True)

    def _make_socket_folder(self) -> None:
        folder = make_socket_root(self.data, self._user) / digest(self.data)
        self._user.make_private(folder)
        for stale in folder.iterdir():  # a killed server's socket, and its lock with a process id that lives on
            stale.unlink()

    def _write_settings(self) -> None:
        user = self._user
        this_start = {
            "shared_buffers": f"{_shared_buffers() // MEBIBYTE}MB",
            "unix_socket_directories": f"'{self._socket_folder}'",
            "listen_addresses": f"'{self._host}'" if self._tcp else "''",
            "port": _free_port(self._host) if self._tcp else DEFAULT_PORT,
        }
        lines = "".join(f"{name} = {value}\n" for name, value in this_start.items())
        user.write(self._cluster / "stafette.conf", f"{SETTINGS.read_text()}\n# This machine and this start\n{lines}")
        # Only the server's user and root can enter the socket's folder: there is nothing left to prove.
        callers = f"{LOOPBACK}/32" if self._host == LOOPBACK else "all"
        databases = "all,replication"  # the second for base backups, which "all" leaves out
        access = f"local {databases} all trust\n"
        if self._tcp:
            access += f"host {databases} all {callers} scram-sha-256\n"
        user.write(self._cluster / "pg_hba.conf", access)

    def _run(self, inherited: Inherited, cluster: Path, program: str, *arguments: str, text: str = "") -> None:
        log_size = inherited.log.tell()
        with self._user.entrance(cluster) as (path, opened):
            status = self._user.run(
                [self.bin(program), *arguments],
                environment={"PGDATA": str(path)},
                keep_open=(inherited.alive.fileno(), *opened),
                text=text,
                output=inherited.log,
            )
        if status != 0:
            raise self._failure(log_size)

    def _failure(self, log_size: int) -> Unavailable:
        output = self.log.read_bytes()[log_size:].decode(errors="replace").strip()
        error = re.search(r"(?:FATAL|PANIC|error): +(?!the database system is)(.*)", output)  # that is said to clients
        reason = error[1] if error else output.rpartition("\n")[2] or "it gave no reason"
        return Unavailable(f"PostgreSQL in {self.data} did not start: {reason}; see {self.log}")

    # One at a time, with errors of ours

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._os_errors_translated():
            make_data_folder(self.data, self._user)
            with self._user.open(self.data / "postgres.lock") as lock:
                _wait_until(lambda: try_lock(lock), f"another process that starts or stops PostgreSQL in {self.data}")
                yield

    @contextmanager
    def _os_errors_translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            problem = f"{error.filename or self.data}: {error.strerror}"
            raise InvalidRequest(f"{problem}; use a data folder that you may write, or run as its owner") from error


def make_data_folder(data: Path, user: ServerUser) -> None:
    """Make a data folder unless it exists: its owner's alone, but root's can be passed by the server's user."""
    if data.exists():
        return
    make_private_folder(data)
    if user.uid != os.geteuid():
        os.chown(data, -1, user.gid)
        data.chmod(0o710)


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait as long as it takes, since recovery after a crash may be long; say so in the log."""
    warn_at = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() >= warn_at:
            log.warning("waiting for %s", what)
            warn_at = float("inf")
        time.sleep(POLL_SECONDS)


def _lives(pid: int) -> bool:
    """Tell whether the process lives; a dead one stays listed, as a zombie, until its parent looks."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, as another user's
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not Path("/proc/self").exists()  # without /proc we go by the signal


def _shared_buffers() -> int:
    """An eighth of the memory, as the pages that the kernel caches serve us too, but neither tiny nor huge."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(memory // 8, 128 * MEBIBYTE), 1024 * MEBIBYTE)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
