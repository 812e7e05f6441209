"""`stafette lab` as a person types it, with real runs: made, looked at, compared, copied, broken off and continued."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.conftest import Databases
from tests.integration.processes import COMMAND, PATIENCE_SECONDS, clean_environment
from tests.integration.test_cli_db import assert_one_sentence, stafette

SWEEP = """
title = "How the size of a message matters"
[preload]
queues = 2
[run]
warm_up = 0.2
duration = {duration}
cool_down = 0.1
repetitions = {repetitions}
[clients.mix]
behaviour = "mix"
count = 2
[system]
database = "{database}"
[thresholds]
{threshold}
[design]
kind = "sweep"
order = "given"
[design.factors.size]
set = "clients.mix.size"
levels = [100, 2000]
[profiles.short]
run.duration = 0.5
"""
KEYS = {"run", "label", "levels", "repetition", "state", "why", "valid", "sentences", "thresholds", "metrics", "folder"}
METRICS = {"throughput", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "errors", "error_share"}


def written(folder: Path, name: str, **values: object) -> Path:
    folder.mkdir(exist_ok=True)
    defaults = {"duration": 1.0, "repetitions": 1, "database": "reset", "threshold": ""}
    file = folder / f"{name}.toml"
    file.write_text(SWEEP.format(**defaults | values))
    return file


class Made:
    """A series of two points, made once, twice each."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.file = written(folder, "sweep", database=database, repetitions=2)
        self.runs = folder / "runs"
        self.done = self.lab("run", str(self.file), "--json")

    def lab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return stafette("lab", *arguments, cwd=self.folder, STAFETTE_RUNS=str(self.runs))

    def json(self, *arguments: str) -> Any:
        done = self.lab(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("lab"), databases.migrated)


# What was made


def test_a_series_is_made_and_tells_what_each_run_came_to(made: Made) -> None:
    assert made.done.returncode == 0, made.done.stderr
    said = made.done.stderr.splitlines()
    assert said[0] == f"series sweep-0001: 4 runs, in {made.runs / 'sweep-0001'}"
    assert [line.partition(":")[0] for line in said[1:]] == [f"{place} of 4" for place in range(1, 5)]

    result = json.loads(made.done.stdout)
    assert (result["series"], result["state"]) == ("sweep-0001", "done")
    assert result["folder"] == str(made.runs / "sweep-0001")
    runs = result["runs"]
    assert [(run["run"], run["label"], run["repetition"]) for run in runs] == [
        (1, "size=100", 1), (2, "size=2000", 1), (3, "size=100", 2), (4, "size=2000", 2),
    ]  # fmt: skip
    for run in runs:
        assert set(run) == KEYS
        assert (run["state"], run["why"], run["thresholds"]) == ("done", None, [])
        assert run["valid"], run["sentences"]
        metrics = run["metrics"]
        assert set(metrics) == METRICS
        assert metrics["throughput"] > 10
        assert 0 < metrics["p50_ms"] <= metrics["p99_ms"] <= metrics["max_ms"]
        assert metrics["errors"] == 0
    assert [run["levels"] for run in runs[:2]] == [{"size": 100}, {"size": 2000}]


def test_the_list_of_series(made: Made) -> None:
    [first, *_] = made.json("ls")
    assert first.pop("started").startswith("20")
    assert first == {
        "name": "sweep-0001", "experiment": "sweep", "profile": None, "done": 4, "runs": 4, "state": "done",
    }  # fmt: skip
    heading, line, *_ = made.lab("ls").stdout.splitlines()
    assert heading.split("\t") == ["name", "experiment", "profile", "started", "done", "runs", "state"]
    assert line.split("\t")[0] == "sweep-0001"


def test_no_series_at_all(tmp_path: Path) -> None:
    done = stafette("lab", "ls", "--runs", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "there are no series" in done.stderr
    assert stafette("lab", "ls", "--runs", str(tmp_path / "none"), "--json").stdout == "[]\n"


def test_a_series_with_its_points(made: Made) -> None:
    shown = made.json("show", "sweep-0001")
    assert shown["settings"]["run"]["repetitions"] == 2
    by_point = {point["point"]: point for point in shown["points"]}
    assert list(by_point) == ["size=100", "size=2000"]
    for label, point in by_point.items():
        values = [run["metrics"]["throughput"] for run in shown["runs"] if run["label"] == label]
        assert (point["runs"], point["valid"]) == (2, 2)
        assert point["throughput"]["mean"] == pytest.approx(sum(values) / 2)
        # Student's t with one degree of freedom; the standard error of two values is half of what lies between them
        assert point["throughput"]["half_width"] == pytest.approx(12.706 * abs(values[0] - values[1]) / 2, rel=1e-3)

    facts, points = made.lab("show", "sweep").stdout.split("\n\n")
    assert "state\tdone, 4 of 4 runs done" in facts
    assert "design\tsize = 100, 2000" in facts
    assert points.splitlines()[0].split("\t") == ["point", "runs", "valid", "throughput", "mean ms", "p99 ms"]
    assert re.match(r"size=100\t2\tall\t[\d,.]+ ± [\d,.]+\t", points.splitlines()[1])


def test_one_run_in_full(made: Made) -> None:
    run = made.json("show", "sweep-0001", "--run", "2")
    assert run["id"] == "sweep-0001/002-size=2000-r1"
    assert run["settings"]["clients"]["mix"]["parameters"] == {"size": 2000}
    assert (Path(run["folder"]) / "run.json").is_file()

    text = made.lab("show", "sweep-0001", "--run", "2").stdout
    facts, operations, checks, machines = text.split("\n\n")
    assert "verdict\tvalid" in facts
    heading, *rows = [line.split("\t") for line in operations.splitlines()]
    assert heading == [
        "operation", "outcome", "count", "throughput", "mean ms", "p50 ms", "p95 ms", "p99 ms", "max ms",
    ]  # fmt: skip
    assert {"send", "peek", "receive", "waiting_queues", "all"} <= {row[0] for row in rows}
    assert sum(int(row[2]) for row in rows if row[0] != "all") == int(rows[-1][2]) == run["summary"]["requests"]
    assert all(line.startswith(("✓ ", "! ")) for line in checks.splitlines())
    assert len(checks.splitlines()) == len(run["checks"])
    assert "broker-1, load-1" in machines
    assert_one_sentence(made.lab("show", "sweep-0001", "--run", "9"), 1, "has no run 9; its runs are 1 to 4")


def test_a_series_is_no_different_from_itself(made: Made) -> None:
    compared = made.json("compare", "sweep-0001", str(made.runs / "sweep-0001"))
    assert compared["settings"] == []
    assert len(compared["differences"]) == 2 * 5
    for difference in compared["differences"]:
        assert difference["change"]["value"] == pytest.approx(0 if difference["kind"] == "difference" else 1)
        assert difference["verdict"] == "no difference shown"
    text = made.lab("compare", "sweep-0001", "sweep-0001").stdout
    assert re.search(r"size=100\tthroughput\t([\d,.]+)\t\1\t× 1.000\t× \d.\d+ … × \d.\d+\tno difference shown", text)
    assert text.endswith("all settings are the same\n")


def test_a_clone_runs_the_same_settings_and_is_compared(made: Made) -> None:
    cloned = made.lab("clone", "sweep-0001")
    assert cloned.stdout == "sweep-copy.toml\n"
    assert (made.folder / "sweep-copy.toml").read_text() == made.file.read_text()
    assert_one_sentence(made.lab("clone", "sweep-0001"), 1, "sweep-copy.toml exists already")

    again = made.lab("run", "sweep-copy.toml", "--profile", "short")
    assert again.returncode == 0, again.stderr
    heading, *rows = [line.split("\t") for line in again.stdout.splitlines()]
    assert heading == [
        "run", "point", "repetition", "state", "throughput", "mean ms", "p99 ms", "errors", "verdict",
    ]  # fmt: skip
    assert [(row[1], row[3], row[-1]) for row in rows] == [("size=100", "done", "ok"), ("size=2000", "done", "ok")] * 2
    changed = made.json("compare", "sweep", "sweep-copy")["settings"]
    assert changed == [
        {"setting": "name", "a": "sweep", "b": "sweep-copy"},
        {"setting": "run.duration", "a": 1.0, "b": 0.5},
    ]


def test_a_series_is_exported_imported_and_removed(made: Made) -> None:
    assert made.lab("export", "sweep-0001").stdout == "sweep-0001.zip\n"
    assert_one_sentence(made.lab("export", "sweep-0001"), 1, "sweep-0001.zip exists already")
    assert made.lab("import", "sweep-0001.zip").stdout == "sweep-0002\n"
    before, after = (made.json("show", name) for name in ("sweep-0001", "sweep-0002"))
    assert after["runs"] == before["runs"]

    assert made.lab("rm", "sweep-0002").returncode != 0  # asks, and gets no answer
    assert made.json("show", "sweep-0002")
    assert made.lab("rm", "sweep-0002", "--yes").returncode == 0
    assert_one_sentence(made.lab("show", "sweep-0002"), 4, "there is no series sweep-0002 in")
    assert_one_sentence(made.lab("import", "sweep.toml"), 1, "sweep.toml is not a whole zip file")
    assert_one_sentence(made.lab("import", "nothing.zip"), 1, "there is no file nothing.zip")


# How it ends


def test_a_threshold_that_is_missed(made: Made) -> None:
    file = written(
        made.folder, "strict", database=made_database(made), threshold='throughput = ">= 1e9"\nerrors = "== 0"'
    )
    done = made.lab("run", str(file), "--profile", "short", "--json")
    assert done.returncode == 99, done.stderr
    for run in json.loads(done.stdout)["runs"]:
        assert [(result["metric"], result["ok"]) for result in run["thresholds"]] == [
            ("throughput", False),
            ("errors", True),
        ]
    assert re.search(r"stafette: run 1 missed a threshold: throughput >= 1000000000 \(was [\d,.]+\)\n", done.stderr)


def made_database(made: Made) -> str:
    found: str = json.loads((made.runs / "sweep-0001/series.json").read_text())["settings"]["system"]["database"]
    return found


def test_a_run_that_fails(made: Made) -> None:
    file = written(made.folder, "nowhere", database="postgresql://nobody@127.0.0.1:1/none")
    done = made.lab("run", str(file))
    assert done.returncode == 1
    assert [line.split("\t")[3] for line in done.stdout.splitlines()] == ["state", "failed", "failed"]
    assert "stafette: run 2 failed: cannot reach the database at postgresql://nobody@127.0.0.1:1/none" in done.stderr
    assert made.json("ls")[-1]["state"] == "failed"


def test_a_file_that_is_wrong_is_told_with_its_lines(made: Made) -> None:
    wrong = written(made.folder, "wrong")
    wrong.write_text(wrong.read_text().replace("duration = 1.0", "duraton = 1.0"))
    assert_one_sentence(made.lab("run", str(wrong)), 1, "wrong.toml:7: there is no key 'duraton' in .run.")
    assert_one_sentence(made.lab("run", "none.toml"), 1, "cannot read none.toml")


def test_two_that_have_nothing_in_common(made: Made, tmp_path: Path) -> None:
    other = tmp_path / "sweep-0009"
    archive = made.lab("export", "sweep-0001", str(tmp_path / "other.zip"))
    assert archive.returncode == 0
    made_elsewhere = stafette("lab", "import", str(tmp_path / "other.zip"), "--runs", str(tmp_path))
    other = tmp_path / made_elsewhere.stdout.strip()
    record = (other / "series.json").read_text()
    (other / "series.json").write_text(record.replace('"state": "done"', '"state": "waiting"'))
    assert_one_sentence(made.lab("compare", "sweep", str(other)), 1, "no run of sweep-0001 is done")


# The libraries


def test_the_command_starts_without_the_libraries_of_the_laboratory() -> None:
    code = "import sys, stafette.cli; print(*{'numpy', 'scipy', 'pyarrow', 'psutil', 'asyncssh'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "\n"


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise ModuleNotFoundError(\"No module named 'scipy'\", name='scipy')")
    done = stafette("lab", "ls", PYTHONPATH=str(tmp_path))
    assert_one_sentence(done, 1, r"the laboratory needs scipy; install stafette\[lab\]")


# Broken off


def processes_of(folder: Path) -> list[psutil.Process]:
    """All that runs for a series: its folder is in their command, environment, or is where they are."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = [*process.cmdline(), process.cwd() or "", *process.environ().values()]
            if process.status() != psutil.STATUS_ZOMBIE and any(str(folder) in text for text in told):
                found.append(process)
    return found


def waited_for(condition: Callable[[], Any]) -> Any:
    """Look until something holds; what it gave."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        select.select([], [], [], 0.05)
    return found


def all_ended(folder: Path) -> None:
    _, alive = psutil.wait_procs(processes_of(folder), timeout=PATIENCE_SECONDS)
    assert not alive
    assert not processes_of(folder)


def states(series: Path) -> list[str]:
    """What has become of the runs so far, by the file."""
    try:
        return [run["state"] for run in json.loads((series / "series.json").read_text())["runs"]]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def running(file: Path, runs: Path) -> Iterator[subprocess.Popen[str]]:
    """`stafette lab run` as a process that can be killed; its own series folder is not in its command."""
    process = subprocess.Popen(
        [COMMAND, "lab", "run", str(file), "--runs", str(runs)],
        env=clean_environment(),
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
        all_ended(runs / f"{file.stem}-0001")


def test_a_killed_runner_leaves_nothing_behind_and_its_series_is_continued(tmp_path: Path) -> None:
    file, runs = written(tmp_path, "killed"), tmp_path / "runs"
    series = runs / "killed-0001"
    with running(file, runs) as process:
        waited_for(lambda: states(series) == ["done", "running"])
        first = (series / "runs/001-size=100-r1/run.json").read_bytes()
        waited_for(lambda: len(processes_of(series)) >= 3)  # agent, database, broker or load
        process.send_signal(signal.SIGKILL)
        process.wait()
        all_ended(series)
    [listed] = json.loads(stafette("lab", "ls", "--runs", str(runs), "--json").stdout)
    assert (listed["state"], listed["done"], listed["runs"]) == ("interrupted", 1, 2)
    shown = json.loads(stafette("lab", "show", "killed", "--runs", str(runs), "--json").stdout)
    assert [run["state"] for run in shown["runs"]] == ["done", "interrupted"]

    done = stafette("lab", "run", str(file), "--runs", str(runs), "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("continues killed-0001: 1 of 2 runs are done\n2 of 2: ")
    assert [run["state"] for run in json.loads(done.stdout)["runs"]] == ["done", "done"]
    assert (series / "runs/001-size=100-r1/run.json").read_bytes() == first
    tried = sorted(path.name for path in (series / "runs").iterdir())
    assert tried == ["001-size=100-r1", "002-size=2000-r1", "002-size=2000-r1-again2"]
    assert json.loads((series / "runs/002-size=2000-r1/run.json").read_text())["state"] == "interrupted"
    assert not processes_of(series)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_breaks_a_series_off_and_ends_everything(tmp_path: Path, times: int) -> None:
    file, runs = written(tmp_path, "long", duration=60.0), tmp_path / "runs"
    series = runs / "long-0001"
    with running(file, runs) as process:
        waited_for(lambda: list(series.glob("runs/*/logs/load-1.log")))  # brokers and database run
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(2)]
        if times == 2:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        if times == 1:
            assert not processes_of(series)  # it has waited for them
    assert process.returncode == 130
    assert out == ""
    assert "ending what runs" in said[1]
    if times == 1:
        assert err == f"broken off; `stafette lab run {file} --runs {runs}` goes on with what is missing\n"
        assert states(series) == ["interrupted", "waiting"]
        [run] = series.glob("runs/*/run.json")
        assert json.loads(run.read_text())["why"] == "it was broken off"
    else:
        assert "what still runs ends by itself" in err
    [listed] = json.loads(stafette("lab", "ls", "--runs", str(runs), "--json").stdout)
    assert listed["state"] == "interrupted"


def test_a_series_that_is_being_run_is_left_alone(tmp_path: Path) -> None:
    file, runs = written(tmp_path, "busy", duration=60.0), tmp_path / "runs"
    with running(file, runs):
        waited_for(lambda: states(runs / "busy-0001") == ["running", "waiting"])
        [listed] = json.loads(stafette("lab", "ls", "--runs", str(runs), "--json").stdout)
        assert listed["state"] == "running"
        removed = stafette("lab", "rm", "busy", "--yes", "--runs", str(runs))
        assert_one_sentence(removed, 1, "busy-0001 is being run, and can be removed when it has ended")
        again = stafette("lab", "run", str(file), "--runs", str(runs))
        assert_one_sentence(again, 1, "busy-0001 is being run by another process")


# On a terminal


def test_progress_is_drawn_on_a_terminal_and_gone_at_the_end(made: Made) -> None:
    file = written(made.folder, "drawn", database=made_database(made))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "lab", "run", str(file), "--runs", str(made.runs)],
        env=clean_environment() | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    drawn = bytearray()
    with contextlib.suppress(OSError):  # the end of a terminal nobody writes to any more
        while chunk := os.read(ours, 65536):
            drawn += chunk
    os.close(ours)
    assert process.wait() == 0, drawn.decode()
    screen = drawn.decode()
    assert "run 1 of 2" in screen
    assert re.search(r"measure .*━.* left", screen)
    assert re.search(r"\d requests/s  ·  [\d.]+ ms  ·  0 errors", screen)
    assert "\x1b[?25l" in screen  # the cursor was hidden
    assert "\x1b[?25h" in screen.rpartition("\x1b[?25l")[2]  # and is there again
    *_, heading, first, second, end = seen(screen)
    assert heading.split() == ["run", "point", "repetition", "state", "throughput", "mean", "ms", "p99", "ms", "errors",
                               "verdict"]  # fmt: skip
    assert (first.split()[1], second.split()[1], end) == ("size=100", "size=2000", "")
    assert not [line for line in seen(screen) if "━" in line or "left" in line]


def seen(screen: str) -> list[str]:
    """What is left on a terminal of all that was written to it, as far as rich's moves of the cursor go."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", screen):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith(("\x1b", "\r")):
            lines[row] += part
    return lines
