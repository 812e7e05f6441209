"""The embedded PostgreSQL, on real servers: it starts once, stays, and stops."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from stafette.database.embedded import EmbeddedPostgres
from stafette.errors import Unavailable
from tests.support.embedded_servers import Make, query

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
