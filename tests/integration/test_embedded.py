"""The embedded PostgreSQL, on real servers: what a user, a crash or a neighbour may do to it."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import asyncpg
import pytest

from stafette.database.embedded import EmbeddedPostgres, binaries, cluster
from stafette.database.embedded.server_user import ServerUser
from stafette.errors import InternalError, InvalidRequest, Unavailable

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
as_ordinary_user = pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user")
with_postgres_15 = pytest.mark.skipif(not POSTGRES_15.exists(), reason=f"needs PostgreSQL 15 in {POSTGRES_15}")

Make = Callable[..., EmbeddedPostgres]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make servers that are stopped in the end, started or not."""
    with ExitStack() as clean_up:

        def make_server(
            data: Path = tmp_path / "data", *, tcp: bool = False, binaries: Path | None = None
        ) -> EmbeddedPostgres:
            server = EmbeddedPostgres(data, tcp=tcp, binaries=binaries)
            clean_up.callback(server.stop)
            return server

        yield make_server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server for the tests that only look."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("running"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; tmp_path is the test's user's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


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


# Starting and stopping


def test_start_and_stop_are_idempotent(make: Make) -> None:
    server = make()
    server.stop()
    assert not server.running
    assert server.pid is None

    server.start()
    first = server.pid
    server.start()
    assert server.running
    assert server.pid == first

    server.stop()
    server.stop()
    assert not server.running
    assert server.pid is None


def test_stopping_what_was_never_made_leaves_no_trace(tmp_path: Path) -> None:
    EmbeddedPostgres(tmp_path / "data").stop()
    assert list(tmp_path.iterdir()) == []


def test_data_survives_a_restart(make: Make) -> None:
    server = make()
    server.start()
    query(server, "CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop()
    server.start()
    assert query(server, "SELECT answer FROM kept") == "42"


def test_asyncpg_connects_to_the_database_stafette(running: EmbeddedPostgres) -> None:
    async def who() -> object:
        connection = await asyncpg.connect(running.url)
        try:
            return await connection.fetchval("SELECT current_user || '@' || current_database()")
        finally:
            await connection.close()

    assert asyncio.run(who()) == "stafette@stafette"


def test_another_process_sees_the_same_server(make: Make) -> None:
    server = make(tcp=True)
    server.start()
    onlooker = EmbeddedPostgres(server.data)
    assert (onlooker.pid, onlooker.url, onlooker.tcp_url) == (server.pid, server.url, server.tcp_url)


def test_the_server_outlives_its_starter_and_the_terminal(make: Make) -> None:
    server = make()
    script = (
        "import sys, pathlib, stafette.database.embedded as e; e.EmbeddedPostgres(pathlib.Path(sys.argv[1])).start()"
    )
    starter = subprocess.Popen([sys.executable, "-c", script, server.data], start_new_session=True)
    assert starter.wait() == 0
    pid = server.pid
    assert pid is not None
    assert os.getsid(pid) == pid
    assert query(server, "SELECT 1") == "1"


def test_the_starter_has_no_child_to_bury(make: Make) -> None:
    server = make()
    server.start()
    assert server.pid is not None
    with pytest.raises(ChildProcessError):
        os.waitpid(server.pid, os.WNOHANG)


def test_processes_that_start_at_once_get_one_server(make: Make) -> None:
    server = make()
    script = (
        "import sys, pathlib, stafette.database.embedded as e; s = e.EmbeddedPostgres(pathlib.Path(sys.argv[1])); "
        "print('here', flush=True); sys.stdin.read(1); s.start(); print(s.pid)"
    )
    command = [sys.executable, "-c", script, str(server.data)]
    starters = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for starter in starters:
        assert starter.stdout
        assert starter.stdout.readline() == "here\n"
    for starter in starters:
        assert starter.stdin
        starter.stdin.write("!")
        starter.stdin.flush()
    answers = [starter.communicate() for starter in starters]
    assert answers == [(f"{server.pid}\n", "")] * len(starters)


def test_what_is_not_running_has_no_url(make: Make) -> None:
    with pytest.raises(Unavailable, match="not running; start it"):
        _ = make().url


# Crashes


def test_a_killed_server_recovers(make: Make) -> None:
    server = make()
    server.start()
    query(server, "CREATE TABLE kept AS SELECT 42 AS answer")
    killed = server.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    server.start()
    assert server.pid != killed
    assert query(server, "SELECT answer FROM kept") == "42"


def test_start_waits_for_the_processes_of_a_killed_server(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    server.start()
    assert server.pid is not None
    straggler = process_children(server.pid)[0]
    os.kill(straggler, signal.SIGSTOP)
    kill_and_wait(server.pid)

    waits = Event()
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(cluster.log, "warning", lambda *_: waits.set())
    with ThreadPoolExecutor() as pool:
        started = pool.submit(server.start)
        try:
            assert waits.wait(timeout=30)
            assert not server.running
            assert not started.done()
        finally:
            os.kill(straggler, signal.SIGCONT)
        started.result(timeout=30)
    assert query(server, "SELECT 1") == "1"


def test_a_stale_pid_file_does_not_make_a_stranger_ours(make: Make) -> None:
    server = make()
    server.start()
    pid_file = server.data / "postgres" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    server.stop()
    user = ServerUser.of(server.data / "postgres")

    with stranger(user) as process:
        user.write(pid_file, "\n".join([str(process.pid), *lines[1:]]) + "\n")
        assert not server.running
        server.stop()
        server.start()
        assert server.pid not in (None, process.pid)
        assert query(server, "SELECT 1") == "1"
        assert process.poll() is None


def test_a_server_started_by_hand_is_left_alone(make: Make, open_folder: Path) -> None:
    server = make()
    server.start()
    server.stop()
    cluster = server.data / "postgres"
    user = ServerUser.of(cluster)
    user.make_private(open_folder / "sockets")
    with user.entrance(cluster) as (path, opened):
        pg_ctl = [str(server.bin("pg_ctl")), "--wait", "--silent", "--pgdata", str(path)]
        assert user.run([*pg_ctl, "start", "--options", f"-k {open_folder / 'sockets'}"], keep_open=opened) == 0
        try:
            with pytest.raises(Unavailable, match="started by other means"):
                server.start()
            assert (cluster / "postmaster.pid").exists()
        finally:
            assert user.run([*pg_ctl, "stop"], keep_open=opened) == 0


def test_an_interrupted_initdb_is_done_again(make: Make) -> None:
    server = make()
    unfinished = server.data / "postgres.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    server.start()
    assert query(server, "SELECT 1") == "1"
    assert not unfinished.exists()


def test_a_failing_initdb_leaves_no_cluster(make: Make, open_folder: Path) -> None:
    (open_folder / "postgres").symlink_to("/bin/false")
    initdb = open_folder / "initdb"
    initdb.write_text(
        "#!/bin/sh\ntouch $PGDATA/PG_VERSION; echo 'initdb: error: no luck today' >&2; echo bye; exit 1\n"
    )
    initdb.chmod(0o755)
    with pytest.raises(Unavailable, match=r"did not start: no luck today; see .*postgres\.log$"):
        make(binaries=open_folder).start()
    server = make()
    assert not (server.data / "postgres").exists()
    server.start()
    assert query(server, "SELECT 1") == "1"


def test_a_damaged_cluster_gives_one_sentence(make: Make) -> None:
    server = make()
    server.start()
    server.stop()
    (server.data / "postgres" / "global" / "pg_control").unlink()
    with pytest.raises(Unavailable) as failure:
        server.start()
    assert "pg_control" in failure.value.sentence
    assert str(server.log) in failure.value.sentence
    assert "\n" not in failure.value.sentence
    assert not server.running


def test_the_reason_of_a_failure_is_not_one_of_an_earlier_start(make: Make) -> None:
    server = make()
    server.start()
    server.stop()
    with server.log.open("a") as log:
        log.write("FATAL:  long ago\n")
    (server.data / "postgres" / "PG_VERSION").unlink()
    with pytest.raises(Unavailable, match="not a database cluster") as failure:
        server.start()
    assert "long ago" not in failure.value.sentence


def test_a_data_folder_that_is_a_file_gives_one_sentence(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match="use a data folder that you may write"):
        make(tmp_path / "file" / "data").start()


# Settings


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes", "data_checksums"])
def test_what_is_committed_is_on_disk(running: EmbeddedPostgres, setting: str) -> None:
    assert query(running, f"SHOW {setting}") == "on"


def test_every_setting_is_known_and_applied(running: EmbeddedPostgres) -> None:
    assert_settings_apply(running)


def assert_settings_apply(server: EmbeddedPostgres) -> None:
    ours = "FROM pg_file_settings WHERE sourcefile LIKE '%/stafette.conf'"
    assert query(server, f"SELECT name, error {ours} AND (error IS NOT NULL OR NOT applied)") == ""
    assert int(query(server, f"SELECT count(*) {ours}")) > 20


def test_text_is_utf8_and_sorted_alike_everywhere(running: EmbeddedPostgres) -> None:
    columns = "pg_encoding_to_char(encoding), datcollate"
    assert query(running, f"SELECT {columns} FROM pg_database WHERE datname = 'stafette'") == "UTF8|C"


def test_an_idle_server_has_one_database_to_look_after(running: EmbeddedPostgres) -> None:
    with_counters = "SELECT datname FROM pg_database WHERE pg_stat_have_stats('database', oid, 0)"
    assert query(running, with_counters) == "stafette"


# TCP


def test_without_asking_there_is_no_tcp(running: EmbeddedPostgres) -> None:
    assert running.tcp_url is None
    assert query(running, "SHOW listen_addresses") == ""
    assert query(running, "SELECT DISTINCT type FROM pg_hba_file_rules") == "local"


def test_tcp_asks_for_the_password(make: Make) -> None:
    server = make(tcp=True)
    server.start()
    url = server.tcp_url
    assert url is not None
    assert query_at(server, url, "SELECT host(inet_server_addr())") == "127.0.0.1"

    password = server.data / "postgres.password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    with pytest.raises(subprocess.CalledProcessError) as refused:
        query_at(server, url.replace(password.read_text(), "wrong"), "SELECT 1")
    assert "password authentication failed" in refused.value.stderr


def test_tcp_can_be_given_up_again(make: Make) -> None:
    server = make(tcp=True)
    server.start()
    server.stop()
    without = make()
    without.start()
    test_without_asking_there_is_no_tcp(without)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_base_backup_can_be_taken(make: Make, tmp_path: Path, tcp: bool) -> None:
    server = make(tcp=tcp)
    server.start()
    url, copy = server.tcp_url or server.url, tmp_path / "copy"
    command = [str(server.bin("pg_basebackup")), "--dbname", url, "--pgdata", str(copy), "--checkpoint", "fast"]
    subprocess.run(command, check=True, capture_output=True)
    assert (copy / "backup_label").exists()


# Folders and users


def test_only_the_server_can_enter_the_folder_of_the_socket(running: EmbeddedPostgres) -> None:
    assert running.pid is not None
    folder = Path(query(running, "SHOW unix_socket_directories"))
    for private in (folder, folder.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert private.stat().st_uid == Path(f"/proc/{running.pid}").stat().st_uid


@pytest.mark.parametrize("trap", ["a link", "open to all"])
def test_a_socket_folder_laid_out_by_somebody_else_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trap: str
) -> None:
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    monkeypatch.setattr(cluster, "SOCKETS", sockets)
    server = make()
    folder = sockets / f"stafette-{ServerUser.of(server.data / 'postgres').uid}"
    if trap == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    with pytest.raises(InvalidRequest, match=r"only user \d+ can enter; remove it"):
        server.start()
    assert not server.running


@as_root
def test_root_starts_a_server_that_is_not_root(running: EmbeddedPostgres) -> None:
    assert running.pid is not None
    user = ServerUser.of(running.data / "postgres")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{running.pid}/status").read_text().splitlines())
    assert user.uid != 0
    assert status["Uid"].split() == [str(user.uid)] * 4
    assert status["Gid"].split() == [str(user.gid)] * 4
    assert status["Groups"].split() == []


@as_root
def test_the_owner_of_the_cluster_runs_it(open_folder: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SOCKETS", open_folder)
    server = make()
    server.start()
    server.stop()
    owner = 54321  # nobody's
    for path in (server.data / "postgres", *(server.data / "postgres").rglob("*")):
        os.chown(path, owner, owner)
    server.start()
    assert Path(f"/proc/{server.pid}").stat().st_uid == owner


@as_root
def test_a_folder_that_is_roots_alone_serves_and_stays_roots_alone(make: Make, tmp_path: Path) -> None:
    barred = tmp_path / "barred"
    data = barred / "data"
    for folder in (barred, data):
        folder.mkdir()
        folder.chmod(0o700)
    parents = [data, *data.parents]
    before = [(path.stat().st_mode, path.stat().st_uid) for path in parents]
    server = make(data)
    assert not ServerUser.of(data / "postgres").reaches(data)

    server.start()
    query(server, "CREATE TABLE kept AS SELECT 42 AS answer")
    query(server, "SELECT pg_reload_conf()")
    server.stop()
    server.start()
    assert query(server, "SELECT answer FROM kept") == "42"
    assert [(path.stat().st_mode, path.stat().st_uid) for path in parents] == before


@as_root
def test_a_reachable_folder_is_used_by_its_name(open_folder: Path, make: Make) -> None:
    server = make(open_folder / "data")
    server.start()
    assert query(server, "SHOW data_directory") == str(server.data / "postgres")


@as_ordinary_user
def test_an_ordinary_user_runs_the_server_from_the_wheel(running: EmbeddedPostgres) -> None:
    assert Path(f"/proc/{running.pid}").stat().st_uid == os.geteuid()
    assert running.bin("postgres").parent == binaries.in_wheel()


# Programs


def test_a_program_that_is_not_there_gives_one_sentence(running: EmbeddedPostgres) -> None:
    assert running.bin("pgbench").exists()
    with pytest.raises(InternalError, match="no-such-program is missing"):
        running.bin("no-such-program")


@with_postgres_15
def test_postgresql_15_will_do(make: Make) -> None:
    server = make(binaries=POSTGRES_15)
    server.start()
    assert query(server, "SHOW server_version").startswith("15.")
    assert_settings_apply(server)
    server.stop()

    with pytest.raises(InvalidRequest, match="is of PostgreSQL 15, but this is PostgreSQL 18"):
        make(server.data).start()


@as_root
def test_a_wheel_out_of_reach_is_copied_once(
    open_folder: Path, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = binaries.in_wheel().parents[2]
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    hidden.chmod(0o700)
    for part in (binaries.INSTALLATION, binaries.LIBRARIES):
        shutil.copytree(site / part, hidden / part)
    (hidden / binaries.PACKAGE / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(hidden)
    monkeypatch.setattr(binaries, "CACHE", open_folder)

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: binaries.readable_copy(), range(2))
    assert first == second
    assert [copy.name for copy in open_folder.iterdir()] == [first.parents[2].name]
    copied = first.stat()

    server = make()
    server.start()
    assert Path(f"/proc/{server.pid}/exe").readlink() == first / "postgres"
    assert query(server, "SELECT 1") == "1"
    assert (first.stat().st_ino, first.stat().st_ctime_ns) == (copied.st_ino, copied.st_ctime_ns)
    assert stat.S_IMODE(hidden.stat().st_mode) == 0o700


@as_root
def test_programs_out_of_reach_give_one_sentence(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot run .*; use another PostgreSQL"):
        make(binaries=tmp_path).start()
