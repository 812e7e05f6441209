"""Folders and users of the embedded PostgreSQL, and where its programs are."""

from __future__ import annotations

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stafette.database.embedded import EmbeddedPostgres, binaries, socket_folders
from stafette.database.embedded.server_user import ServerUser
from stafette.errors import InternalError, InvalidRequest
from tests.support.embedded_servers import (
    POSTGRES_15,
    Make,
    as_ordinary_user,
    as_root,
    assert_settings_apply,
    query,
    with_postgres_15,
)

# Folders and users


def test_only_the_server_can_enter_the_folder_of_the_socket(running: EmbeddedPostgres) -> None:
    assert running.pid is not None
    folder = Path(query(running, "SHOW unix_socket_directories"))
    for private in (folder, folder.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert private.stat().st_uid == Path(f"/proc/{running.pid}").stat().st_uid


@pytest.mark.parametrize("trap", ["a link", "open to all"])
def test_a_socket_folder_laid_out_by_somebody_else_is_not_used(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, open_folder: Path, trap: str
) -> None:
    sockets = open_folder  # its path is short
    monkeypatch.setattr(socket_folders, "SOCKETS", sockets)
    server = make()
    folder = sockets / f"stafette-{ServerUser.of(server.data / 'postgres').uid}"
    if trap == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    server.start()
    used = Path(query(server, "SHOW unix_socket_directories"))
    assert used.parent.parent == sockets
    assert used.parent != folder
    assert stat.S_IMODE(used.parent.lstat().st_mode) == 0o700
    assert not list(folder.iterdir())
    server.stop()
    server.start()
    assert Path(query(server, "SHOW unix_socket_directories")) == used


@pytest.mark.parametrize("name", ["victim", "../stafette-{uid}-x", "stafette-{uid}-x/../victim"])
def test_a_record_that_names_another_folder_is_not_believed(
    make: Make, monkeypatch: pytest.MonkeyPatch, open_folder: Path, name: str
) -> None:
    """It is the user's file, and root would give them the folder that it names."""
    monkeypatch.setattr(socket_folders, "SOCKETS", open_folder)
    server = make()
    server.start()
    server.stop()
    victim = open_folder / "victim"
    victim.mkdir(mode=0o700)
    user = ServerUser.of(server.data / "postgres")
    named = f"{open_folder}/{name.format(uid=user.uid)}"
    (server.data / socket_folders.RECORD).write_text(f"{named}\n")
    usual = open_folder / f"stafette-{user.uid}"
    assert socket_folders.socket_root(server.data, user) == usual
    server.start()
    assert Path(query(server, "SHOW unix_socket_directories")).parent == usual
    assert victim.stat().st_uid == os.geteuid()
    assert not list(victim.iterdir())


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
    monkeypatch.setattr(socket_folders, "SOCKETS", open_folder)
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
