"""`stafette db` as a person types it: a life cycle, and one sentence with an exit code for each way to fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from tests.support.command_line import assert_one_sentence, stafette, stafette_process


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    EmbeddedPostgres(folder).stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server on TCP that tests here may spoil."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("spoiled"), tcp=True)
    server.start()
    yield server
    server.stop()


def test_a_life_cycle(data: Path) -> None:
    for _ in range(2):  # again is harmless
        started = stafette_process("db", "start", "--data", str(data))
        assert started.returncode == 0, started.stderr
    url = started.stdout.strip()
    assert stafette_process("db", "url", "--data", str(data)).stdout.strip() == url

    status = stafette_process("db", "status", "--json", STAFETTE_DATABASE=url)
    assert status.returncode == 0
    assert json.loads(status.stdout) == {
        "database": url, "ready": True, "problem": None, "schema": schema.newest_version(),
        "clients": 0, "queues": 0, "messages": 0,
    }  # fmt: skip
    assert "nothing to do" in stafette_process("db", "migrate", "--database", url).stderr
    assert stafette_process("db", "reset", "--database", url).returncode != 0  # asks, and gets no answer
    assert stafette_process("db", "reset", "--database", url, "--yes").returncode == 0

    for _ in range(2):
        assert stafette_process("db", "stop", "--data", str(data)).returncode == 0
    assert_one_sentence(
        stafette_process("db", "url", "--data", str(data)), 3, "not running; start it with `stafette db start`"
    )


def test_a_database_that_is_nowhere() -> None:
    completed = stafette("db", "migrate", STAFETTE_DATABASE="postgresql://nobody@127.0.0.1:1/none")
    assert_one_sentence(completed, 3, "cannot reach the database at postgresql://nobody@127.0.0.1:1/none")


def test_a_wrong_password_is_refused_and_not_shown(server: EmbeddedPostgres) -> None:
    assert server.tcp_url is not None
    wrong = re.sub(r":[^:@]+@", ":wr0ng@", server.tcp_url)
    completed = stafette("db", "status", "--database", wrong)
    assert_one_sentence(completed, 3, "refused to log us in: .*; check user and password in the URL")
    assert "wr0ng" not in completed.stderr


def test_a_database_that_does_not_exist(server: EmbeddedPostgres) -> None:
    completed = stafette("db", "migrate", "--database", server.url.replace("@/stafette?", "@/other?"))
    assert_one_sentence(completed, 3, "the server has no such database")


def test_what_is_not_a_database_url() -> None:
    assert_one_sentence(stafette("db", "migrate", "--database", "mysql://x"), 1, "is not a database URL; write")


def problem_of(url: str) -> str:
    completed = stafette("db", "status", "--database", url, "--json")
    assert completed.returncode == 1
    assert completed.stderr == ""
    problem = json.loads(completed.stdout)["problem"]
    assert "\n" not in problem
    return str(problem)


async def test_a_database_without_with_a_newer_and_with_an_unsafe_schema(
    new_database: str, server: EmbeddedPostgres
) -> None:
    assert "no schema for Stafette; run `stafette db migrate`" in problem_of(new_database)

    await schema.migrate(new_database)
    connection = await asyncpg.connect(new_database)
    await connection.execute("UPDATE stafette.schema_state SET version = 4711")
    await connection.close()
    assert "upgrade Stafette" in problem_of(new_database)
    assert_one_sentence(stafette("db", "migrate", "--database", new_database), 1, "upgrade Stafette")

    await schema.migrate(server.url)
    for setting in ("synchronous_commit", "fsync"):
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"ALTER SYSTEM SET {setting} = off")
        await connection.close()
        server.stop()
        server.start()
        assert f"{setting} = off" in problem_of(server.url)
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"ALTER SYSTEM RESET {setting}")
        await connection.close()


def test_settings_come_from_flag_then_environment_then_file(tmp_path: Path) -> None:
    (tmp_path / "stafette.toml").write_text('database = "postgresql://file/x"\n')
    assert stafette("db", "url", cwd=tmp_path).stdout == "postgresql://file/x\n"
    assert stafette("db", "url", cwd=tmp_path, STAFETTE_DATABASE="postgresql://env/x").stdout == "postgresql://env/x\n"
    flag = ("--database", "postgresql://flag/x")
    assert stafette("db", "url", *flag, cwd=tmp_path, STAFETTE_DATABASE="postgresql://env/x").stdout == f"{flag[1]}\n"
    assert_one_sentence(
        stafette("db", "start", cwd=tmp_path), 1, "which Stafette does not manage; unset STAFETTE_DATABASE"
    )


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('databse = "x"\n', "there is no setting 'databse'"),
        ("data = ", "is not valid TOML"),
        ("data = 7\n", "setting 'data'"),
    ],
)
def test_a_wrong_settings_file_is_refused(tmp_path: Path, toml: str, says: str) -> None:
    (tmp_path / "stafette.toml").write_text(toml)
    assert_one_sentence(stafette("db", "url", cwd=tmp_path), 1, says)


def test_debug_shows_the_traceback() -> None:
    done = stafette_process("--debug", "db", "migrate", "--database", "mysql://x")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_unknown_commands_and_flags_are_usage_errors() -> None:
    assert stafette("db", "fly").returncode == 2
    assert stafette("db", "url", "--colour").returncode == 2
    assert stafette("--version").stdout.startswith("stafette ")
