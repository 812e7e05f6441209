"""`stafette lab` where runs fail, files are wrong, libraries are missing, or somebody breaks it off."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.support.command_line import COMMAND, assert_one_sentence, clean_environment, stafette_process
from tests.support.lab_commands import lab, lab_json, written
from tests.support.waiting import TIMEOUT_SECONDS, blocking_until

# How it ends


def test_a_run_that_fails(tmp_path: Path) -> None:
    written(tmp_path, "nowhere", database="postgresql://nobody@127.0.0.1:1/none")
    done = stafette_process("lab", "run", "nowhere.toml", "--runs", "runs", cwd=tmp_path)
    assert done.returncode == 1
    assert [line.split("\t")[3] for line in done.stdout.splitlines()] == ["state", "failed", "failed"]
    assert "stafette: run 2 failed: cannot reach the database at postgresql://nobody@127.0.0.1:1/none" in done.stderr
    [listed] = lab_json(tmp_path, "ls")
    assert (listed["state"], listed["done"]) == ("failed", 0)


def test_a_file_that_is_wrong_is_told_with_its_lines(tmp_path: Path) -> None:
    written(tmp_path, "right")
    wrong = written(tmp_path, "wrong")
    wrong.write_text(wrong.read_text().replace("\nduration", "\nduraton"))
    assert_one_sentence(lab(tmp_path, "run", "wrong.toml"), 1, "wrong.toml:7: there is no key 'duraton' in .run.")
    assert_one_sentence(lab(tmp_path, "run", "none.toml"), 1, "cannot read none.toml")
    assert_one_sentence(lab(tmp_path, "run", "right.toml", "--profile", "x"), 1, "there is no profile 'x'")


# The libraries


def test_the_command_starts_without_the_libraries_of_the_laboratory() -> None:
    code = "import sys, stafette.cli; print(*{'numpy', 'scipy', 'pyarrow', 'psutil', 'asyncssh'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "\n"


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise ModuleNotFoundError(\"No module named 'scipy'\", name='scipy')")
    done = stafette_process("lab", "ls", PYTHONPATH=str(tmp_path))
    assert_one_sentence(done, 1, r"the laboratory needs scipy; install stafette\[lab\]")


# Broken off


def processes_of(folder: Path) -> list[psutil.Process]:
    """All that runs for a series: its folder is in their command, in their environment, or is where they are."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = [*process.cmdline(), process.cwd() or "", *process.environ().values()]
            if process.status() != psutil.STATUS_ZOMBIE and any(str(folder) in text for text in told):
                found.append(process)
    return found


def assert_all_end(folder: Path) -> None:
    _, alive = psutil.wait_procs(processes_of(folder), timeout=TIMEOUT_SECONDS)
    assert not alive
    assert not processes_of(folder)


def states(folder: Path) -> list[str]:
    """What has become of the runs so far, by the file."""
    try:
        return [run["state"] for run in json.loads((folder / "series.json").read_text())["runs"]]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def running(file: Path) -> Iterator[subprocess.Popen[str]]:
    """`stafette lab run` as a process that can be killed, with a database of its own."""
    process = subprocess.Popen(
        [COMMAND, "lab", "run", file.name, "--runs", "runs"],
        env=clean_environment(),
        cwd=file.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        assert_all_end(file.parent / f"runs/{file.stem}-0001")


def test_a_killed_runner_leaves_nothing_behind_and_its_series_is_continued(tmp_path: Path) -> None:
    file, folder = written(tmp_path, "killed"), tmp_path / "runs/killed-0001"
    with running(file) as process:
        blocking_until(lambda: states(folder) == ["done", "running"])
        first = (folder / "runs/001-size=100-r1/run.json").read_bytes()
        blocking_until(lambda: (folder / "runs/002-size=2000-r1/logs/load-1.log").exists())
        assert len(processes_of(folder)) >= 4  # an agent, a database, a broker, a load process
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert_all_end(folder)
    [listed] = lab_json(tmp_path, "ls")
    assert (listed["state"], listed["done"], listed["runs"]) == ("interrupted", 1, 2)
    assert [run["state"] for run in lab_json(tmp_path, "show", "killed")["runs"]] == ["done", "interrupted"]

    done = stafette_process("lab", "run", "killed.toml", "--runs", "runs", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("continuing killed-0001: 1 of 2 runs are done\n2 of 2: ")
    assert [run["state"] for run in json.loads(done.stdout)["runs"]] == ["done", "done"]
    assert (folder / "runs/001-size=100-r1/run.json").read_bytes() == first
    tried = sorted(path.name for path in (folder / "runs").iterdir())
    assert tried == ["001-size=100-r1", "002-size=2000-r1", "002-size=2000-r1-again2"]
    assert json.loads((folder / "runs/002-size=2000-r1/run.json").read_text())["state"] == "interrupted"
    assert not processes_of(folder)


def test_a_series_under_way_is_left_alone_and_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    file, folder = written(tmp_path, "long", duration=60.0), tmp_path / "runs/long-0001"
    with running(file) as process:
        blocking_until(lambda: list(folder.glob("runs/*/logs/load-1.log")))  # brokers and database run
        assert lab_json(tmp_path, "ls")[0]["state"] == "running"
        assert_one_sentence(lab(tmp_path, "rm", "long", "--yes"), 1, "long-0001 is running and can be removed when")
        another = lab(tmp_path, "run", "long.toml")
        assert another.returncode == 1
        waiting, refused = another.stderr.splitlines()
        assert "waiting for its end" in waiting
        assert "long-0001 is being run by another process" in refused
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        assert not processes_of(folder)  # it has waited for them
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("\ninterrupted; `stafette lab run long.toml --runs runs` continues with the missing runs\n")
    assert states(folder) == ["interrupted", "waiting"]
    [run] = folder.glob("runs/*/run.json")
    assert json.loads(run.read_text())["why"] == "the run was interrupted"
    assert lab_json(tmp_path, "ls")[0]["state"] == "interrupted"


def test_a_second_ctrl_c_does_not_wait_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file, folder = written(tmp_path, "long", duration=60.0), tmp_path / "runs/long-0001"
    with running(file) as process:
        blocking_until(lambda: list(folder.glob("runs/*/logs/load-1.log")))
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert ["stopping the run" in process.stderr.readline() for _ in range(2)] == [False, True]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130
        assert processes_of(folder)  # it has not waited: to stop the database alone takes a command of its own
        assert process.stderr.readline() == "interrupted at once; processes that still run will end by themselves\n"
        assert_all_end(folder)
    assert lab_json(tmp_path, "ls")[0]["state"] == "interrupted"
