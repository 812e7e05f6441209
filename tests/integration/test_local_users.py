"""Other users of the machine see no secret and reach nothing, and root's processes are not root."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stafette.broker.control import ask_all
from stafette.database.embedded.server_user import CANDIDATES, ServerUser
from stafette.errors import InvalidRequest
from tests.support.command_line import COMMAND, assert_one_sentence, clean_environment, stafette_process
from tests.support.embedded_servers import as_root
from tests.support.laboratory import PAIR, trial
from tests.support.process_table import Row, files_open_to_others, markdown, processes
from tests.support.stafette_up import whole_system
from tests.support.waiting import blocking_until

STRANGER = 54_399
"""The id of a user that nobody has."""

PROWL = """
import os, socket, sys
folders, secrets = sys.argv[1].split(","), sys.argv[2].split(",")
for folder in folders:
    for parent, names, files in os.walk(folder):
        print("entered", parent)
    for name in ("run", "runs", "postgres.log", "broker.log", "web.log", "postgres.password", "web/client.secret"):
        try:
            os.listdir(f"{folder}/{name}") if os.path.isdir(f"{folder}/{name}") else open(f"{folder}/{name}").close()
            print("read", name)
        except OSError:
            pass
for path in sys.argv[3].split(","):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected to", path)
    except OSError:
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("cmdline", "environ"):
        try:
            text = open(f"/proc/{pid}/{name}", errors="replace").read()
        except OSError:
            continue
        if any(secret in text for secret in secrets):
            print("saw a secret in", name, text)
"""


def prowl(folders: list[Path], secrets: list[str], sockets: list[Path]) -> str:
    """What another user of this machine gets to."""
    lists = [",".join(map(str, things)) for things in (folders, secrets, sockets)]
    # Its own command has the secrets: they are not those of the processes, but the halves are put together there.
    halves = ",".join(f"{secret[: len(secret) // 2]}+{secret[len(secret) // 2 :]}" for secret in secrets)
    script = PROWL.replace('sys.argv[2].split(",")', '[half.replace("+", "") for half in sys.argv[2].split(",")]')
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, lists[0], halves, lists[2]],
        user=STRANGER, group=STRANGER, extra_groups=[], cwd="/", env={}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@contextmanager
def series_under_way(folder: Path, data: Path, database: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run of the laboratory, with its load processes at work."""
    file = folder / "trial.toml"
    file.write_text(trial(PAIR, duration=120.0, system=f'database = "{database}"'))
    command = [str(COMMAND), "lab", "run", str(file)]
    environment = clean_environment() | {"STAFETTE_DATA": str(data)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
        try:
            blocking_until(lambda: any("lab.running.worker" in row.command for row in processes(data / "runs")))
            yield runner
        finally:
            runner.terminate()
            runner.communicate()


@as_root
def test_nothing_is_root_or_tells_a_stranger_anything(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    user = ServerUser.candidate()
    with ExitStack() as stack:
        system = stack.enter_context(whole_system(data))
        stack.callback(stafette_process, "db", "stop", "--data", str(other))
        database = stafette_process("db", "start", "--tcp", "--data", str(other)).stdout.strip()
        password = (other / "postgres.password").read_text()
        stack.enter_context(series_under_way(tmp_path, data, f"{database}?password={password}"))
        rows = processes(tmp_path)
        sockets = [*(data / "run").glob("*.sock"), *Path("/tmp").glob(f"stafette-{user.uid}/*/.s.PGSQL.*")]

        table = markdown(rows)
        print(table)
        parts = ("broker --data", "web --data", "lab run", "hosts.agent", "broker --name broker-1", "running.worker")
        assert all(any(part in row.command for row in rows) for part in parts), table
        assert {row.uids for row in rows} == {frozenset([user.uid])}, table
        assert not [row for row in rows if row.is_exposed], table
        assert not [row for row in rows if password in row.command or system.secret in row.command]
        assert files_open_to_others(data) == []
        assert stat.S_IMODE(data.stat().st_mode) & 0o007 == 0
        assert len(sockets) >= 3
        assert prowl([data, other], [password, system.secret], sockets) == ""
    written = [path.read_bytes() for path in data.rglob("*") if path.is_file() and "postgres" not in path.parts]
    assert not any(password.encode() in content for content in written)


@as_root
def test_a_data_folder_that_root_made_open_changes_hands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for folder in ("", "run", "runs/old-0001", "experiments", "web"):
        (data / folder).mkdir(mode=0o755, exist_ok=True, parents=True)
    data.chmod(0o711)
    for name in ("broker.log", "web.log", "runs/old-0001/series.json", "web/client.secret"):
        (data / name).write_text("old")
        (data / name).chmod(0o644)
    outside = tmp_path / "outside"
    outside.write_text("root's")
    (data / "runs" / "link").symlink_to(outside)
    (data / "runs" / "second-name").hardlink_to(outside)

    user = ServerUser.candidate()
    with whole_system(data):
        names = ("run", "runs", "runs/old-0001", "runs/old-0001/series.json", "web/client.secret", "broker.log")
        assert {(data / name).stat().st_uid for name in names} == {user.uid}
        assert {stat.S_IMODE((data / name).stat().st_mode) & 0o077 for name in ("run", "runs", "broker.log")} == {0}
    assert outside.stat().st_uid == 0
    assert data.stat().st_uid == 0


@as_root
def test_a_folder_that_bars_the_user_stays_as_it_is_and_is_named(tmp_path: Path) -> None:
    barred = tmp_path / "barred"
    barred.mkdir(mode=0o700)
    try:
        done = stafette_process("up", "--no-web", "--port", "0", "--data", str(barred / "data"))
        assert done.returncode == 0, done.stderr
        assert f"this runs as root, because user {ServerUser.candidate().name} cannot get to" in done.stderr
        assert stat.S_IMODE(barred.stat().st_mode) == 0o700
        assert stafette_process("status", "--data", str(barred / "data")).returncode == 0
    finally:
        stafette_process("down", "--data", str(barred / "data"))


@as_root
def test_nobody_is_never_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stafette.database.embedded.server_user.CANDIDATES", ("no-such-user",))
    with pytest.raises(InvalidRequest, match="make one with `useradd --system"):
        ServerUser.of(tmp_path / "postgres")
    assert "nobody" not in CANDIDATES


@as_root
def test_a_cluster_of_nobodys_is_taken_over(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    nobody = pwd.getpwnam("nobody")
    with whole_system(Path(data)):
        pass
    for path in (Path(data, "postgres"), *Path(data, "postgres").rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    try:
        started = stafette_process("up", "--data", data, "--port", "0", "--no-web")
        assert started.returncode == 0, started.stderr
        assert Path(data, "postgres").stat().st_uid == ServerUser.candidate().uid
        assert stafette_process("status", "--data", data).returncode == 0
    finally:
        stafette_process("down", "--data", data)


@as_root
def test_a_port_below_1024_is_bound_before_root_is_given_up(tmp_path: Path) -> None:
    port = next(port for port in range(1023, 900, -1) if _is_free(port))
    with whole_system(tmp_path / "data") as system:
        command = [str(COMMAND), "broker", "--data", str(system.data), "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
            assert broker.stdout is not None
            assert broker.stdout.readline().strip() == f"stafette://127.0.0.1:{port}"
            [row] = [row for row in processes(system.data) if f"--port {port}" in row.command]
            assert row.uids == {ServerUser.candidate().uid}
            broker.terminate()
            _, errors = broker.communicate()
        assert f"this runs as user {row.user}, not as root" in errors
        refused = stafette_process("broker", "--data", str(system.data), "--port", str(port), "--workers", "2")
        assert_one_sentence(refused, 1, "several workers cannot share port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# Files of others


@as_root
@pytest.mark.parametrize("trap", ["another's", "writable", "a link", "a pipe"])
def test_settings_that_others_could_have_written_are_not_read(tmp_path: Path, trap: str) -> None:
    file = tmp_path / "stafette.toml"
    text = 'url = "stafette://127.0.0.1:1"\n'
    if trap == "a pipe":
        os.mkfifo(file)
    elif trap == "a link":
        (tmp_path / "own.toml").write_text(text)
        file.symlink_to(tmp_path / "own.toml")
        os.lchown(file, STRANGER, STRANGER)
    else:
        file.write_text(text)
    if trap == "writable":
        file.chmod(0o666)
    elif trap != "a link":
        os.chown(file, STRANGER, STRANGER)
    says = "other users may write" if trap == "writable" else "belongs to another user"
    assert_one_sentence(stafette_process("send", "jobs", "body", cwd=tmp_path), 1, says)


@pytest.mark.parametrize(("mode", "is_used"), [(0o600, True), (0o640, True), (0o644, False), (0o660, False)])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int, is_used: bool) -> None:
    from tests.integration.test_broker_process import CERTIFICATE, KEY

    (tmp_path / "certificate.pem").write_text(CERTIFICATE)
    key = tmp_path / "key.pem"
    key.write_text(KEY)
    key.chmod(mode)
    is_used = is_used and (mode == 0o600 or os.geteuid() == 0)  # PostgreSQL, too, lets a group read root's
    options = ("--tls-certificate", str(tmp_path / "certificate.pem"), "--tls-key", str(key))
    nowhere = "postgresql://me@127.0.0.1:1/none"
    for command in ("broker", "web"):
        done = stafette_process(
            command, "--database", nowhere, "--data", str(tmp_path / "data"), "--port", "0", *options
        )
        assert ("other users can read the key" in done.stderr) == (not is_used), done.stderr


def test_rows_of_the_table_are_made_of_processes() -> None:
    row = Row("me", frozenset([1]), "stafette broker", ("127.0.0.1:7470",), False)
    assert "| me | `stafette broker` | 127.0.0.1:7470 |" in markdown([row])


@as_root
def test_a_stranger_is_not_asked_where_the_broker_is() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as data, socket.socket(socket.AF_UNIX) as stranger:
        run = Path(data) / "run"
        run.mkdir()
        os.chown(run, STRANGER, STRANGER)
        stranger.bind(str(run / "broker-1.sock"))
        stranger.listen()
        stranger.settimeout(0)
        with pytest.raises(InvalidRequest, match="belongs to another user"):
            ask_all(Path(data), "status")
        with pytest.raises(BlockingIOError):
            stranger.accept()


@as_root
def test_a_data_folder_in_which_others_can_write_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    done = stafette_process("up", "--data", str(data), "--port", "0", "--no-web")
    assert_one_sentence(done, 1, "other users may write in")
    assert not list(data.iterdir())
