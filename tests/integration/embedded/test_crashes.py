"""Servers and folders that something happened to: recovered, or refused with one sentence."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from stafette.database.embedded import cluster
from stafette.database.embedded.server_user import ServerUser
from stafette.errors import InvalidRequest, Unavailable
from tests.support.embedded_servers import Make, kill_and_wait, process_children, query, stranger


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
