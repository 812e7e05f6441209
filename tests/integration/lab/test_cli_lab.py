"""`stafette lab` as a person types it, with real runs: made, looked at, compared and copied."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stafette.lab.experiment import experiment_file
from stafette.lab.series import series_folder
from stafette.pipeline.sources.record import run_of
from tests.support.command_line import COMMAND, assert_one_sentence, clean_environment, stafette_process
from tests.support.databases import Databases
from tests.support.lab_commands import lab, lab_json, written

KEYS = {"run", "label", "levels", "repetition", "state", "why", "valid", "sentences", "thresholds", "metrics", "folder"}
METRICS = {"throughput", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "errors", "error_share"}


@pytest.fixture(scope="module")
def database(databases: Databases) -> Iterator[str]:
    """One that the laboratory may empty; the others' is not its own."""
    url = asyncio.run(databases.make())
    yield url
    asyncio.run(databases.drop(url))


@pytest.fixture(scope="module")
def home(database: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the experiment file, where people stand; the database is there already."""
    folder = tmp_path_factory.mktemp("lab")
    written(folder, "sweep", database=database, repetitions=2)
    return folder


@pytest.fixture(scope="module")
def made(home: Path) -> subprocess.CompletedProcess[str]:
    """A series of two points, each made twice; STAFETTE_RUNS says where."""
    return stafette_process("lab", "run", "sweep.toml", "--json", cwd=home, STAFETTE_RUNS=str(home / "runs"))


@pytest.fixture(scope="module")
def cloned(home: Path, made: object) -> subprocess.CompletedProcess[str]:
    """A clone of that series, run once, with thresholds."""
    assert lab(home, "clone", "sweep-0001").stdout == "sweep-copy.toml\n"
    arguments = ("lab", "run", "sweep-copy.toml", "--profile", "strict", "--runs", "runs")
    return stafette_process(*arguments, cwd=home)


@pytest.fixture(scope="module")
def drawn(home: Path, database: str) -> str:
    """All that a series of one run writes to a terminal."""
    written(home, "drawn", database=database)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "lab", "run", "drawn.toml", "--profile", "large", "--runs", "runs"],
        env=clean_environment() | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}, cwd=home,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    screen = bytearray()
    with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to any more
        while chunk := os.read(ours, 65536):
            screen += chunk
    os.close(ours)
    assert process.wait() == 0, screen.decode()
    return screen.decode()


# What was made


def test_a_series_is_made_and_tells_what_each_run_came_to(home: Path, made: subprocess.CompletedProcess[str]) -> None:
    assert made.returncode == 0, made.stderr
    folder = home / "runs/sweep-0001"
    said = made.stderr.splitlines()
    assert said[0] == f"series sweep-0001: 4 runs, in {folder}"
    assert [line.partition(":")[0] for line in said[1:]] == [f"{place} of 4" for place in range(1, 5)]

    result = json.loads(made.stdout)
    assert (result["series"], result["folder"], result["state"]) == ("sweep-0001", str(folder), "done")
    runs = result["runs"]
    assert [(run["run"], run["label"], run["repetition"]) for run in runs] == [
        (1, "size=100", 1), (2, "size=2000", 1), (3, "size=100", 2), (4, "size=2000", 2),
    ]  # fmt: skip
    for run in runs:
        assert set(run) == KEYS
        assert (run["state"], run["why"], run["thresholds"]) == ("done", None, [])
        assert run["valid"], run["sentences"]
        assert set(run["metrics"]) == METRICS
        assert run["metrics"]["throughput"] > 10
        assert 0 < run["metrics"]["p50_ms"] <= run["metrics"]["p99_ms"] <= run["metrics"]["max_ms"]
        assert run["metrics"]["errors"] == 0
    assert [run["levels"] for run in runs[:2]] == [{"size": 100}, {"size": 2000}]


@pytest.mark.usefixtures("made")
def test_the_pipeline_reads_of_a_run_which_point_of_which_design_it_is(home: Path) -> None:
    """Without the kind of the design it would see no effects in a 2k design, and say nothing."""
    records = sorted((home / "runs/sweep-0001/runs").glob("*/run.json"))
    points = [run_of(record.read_text(), str(record.parent)) for record in records]
    assert [(run.design, run.levels, run.repetition) for run in points] == [
        ("sweep", {"size": 100}, 1), ("sweep", {"size": 2000}, 1), ("sweep", {"size": 100}, 2),
        ("sweep", {"size": 2000}, 2),
    ]  # fmt: skip


@pytest.mark.usefixtures("made")
def test_the_list_of_series(home: Path) -> None:
    [first, *_] = lab_json(home, "ls")
    assert first.pop("started").startswith("20")
    assert first == {
        "name": "sweep-0001", "experiment": "sweep", "profile": None, "done": 4, "runs": 4, "state": "done",
        "imported": False,
    }  # fmt: skip
    heading, line, *_ = lab(home, "ls").stdout.splitlines()
    assert heading.split("\t") == ["name", "experiment", "profile", "started", "done", "runs", "state", "imported"]
    assert line.split("\t")[0] == "sweep-0001"


def test_no_series_at_all(tmp_path: Path) -> None:
    done = lab(tmp_path, "ls")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no series in" in done.stderr
    assert lab(tmp_path, "ls", "--json").stdout == "[]\n"
    assert_one_sentence(lab(tmp_path, "show", "any"), 4, "there is no series any in .*; there are none yet")


@pytest.mark.usefixtures("made")
def test_a_series_with_its_points(home: Path) -> None:
    shown = lab_json(home, "show", "sweep-0001")
    assert shown["settings"]["run"]["repetitions"] == 2
    by_point = {point["point"]: point for point in shown["points"]}
    assert list(by_point) == ["size=100", "size=2000"]
    for label, point in by_point.items():
        values = [run["metrics"]["throughput"] for run in shown["runs"] if run["label"] == label]
        assert (point["runs"], point["valid"]) == (2, 2)
        assert point["throughput"]["mean"] == pytest.approx(sum(values) / 2)
        # Student's t with one degree of freedom; the standard error of two values is half of what lies between them
        assert point["throughput"]["half_width"] == pytest.approx(12.706 * abs(values[0] - values[1]) / 2, rel=1e-3)

    facts, points = lab(home, "show", "sweep").stdout.split("\n\n")
    assert "state\tdone, 4 of 4 runs done" in facts
    assert "design\tsize = 100, 2000" in facts
    heading, line, *_ = points.splitlines()
    assert heading.split("\t") == ["point", "runs", "valid", "throughput", "mean ms", "p99 ms"]
    assert re.match(r"size=100\t2\tall\t[\d,.]+ ± [\d,.]+\t", line)
    assert lab(home / "runs/sweep-0001", "show", ".").stdout.startswith("series\tsweep-0001\n")


@pytest.mark.usefixtures("made")
def test_one_run_in_full(home: Path) -> None:
    run = lab_json(home, "show", "sweep-0001", "--run", "2")
    assert run["id"] == "sweep-0001/002-size=2000-r1"
    assert run["settings"]["clients"]["mix"]["parameters"] == {"size": 2000}
    assert (Path(run["folder"]) / "run.json").is_file()

    text = lab(home, "show", "sweep-0001", "--run", "2").stdout
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
    assert_one_sentence(lab(home, "show", "sweep-0001", "--run", "9"), 1, "has no run 9; its runs are 1 to 4")


@pytest.mark.usefixtures("made")
def test_a_series_is_no_different_from_itself(home: Path) -> None:
    compared = lab_json(home, "compare", "sweep-0001", str(home / "runs/sweep-0001"))
    assert compared["settings"] == []
    assert len(compared["differences"]) == 2 * 5
    for difference in compared["differences"]:
        assert difference["change"]["value"] == pytest.approx(0 if difference["kind"] == "difference" else 1)
        assert difference["verdict"] == "no difference shown"
    text = lab(home, "compare", "sweep-0001", "sweep-0001").stdout
    assert re.search(r"size=100\tthroughput\t([\d,.]+)\t\1\t× 1.000\t× \d+.\d+ … × \d+.\d+\tno difference shown", text)
    assert text.endswith("all settings are the same\n")


# Copies


def test_a_clone_says_the_same_and_is_never_written_over(home: Path, cloned: object) -> None:
    copy = experiment_file.read(home / "sweep-copy.toml")
    original = lab_json(home, "show", "sweep-0001")["settings"]
    assert series_folder.settings(copy) | {"name": "sweep"} == original
    assert_one_sentence(lab(home, "clone", "sweep-0001"), 1, "sweep-copy.toml exists already")


def test_a_threshold_that_is_missed(home: Path, cloned: subprocess.CompletedProcess[str]) -> None:
    assert cloned.returncode == 99, cloned.stderr
    assert re.search(r"\nstafette: run 1 missed a threshold: throughput >= 1000000000 \(was [\d,.]+\)\n", cloned.stderr)
    heading, row = [line.split("\t") for line in cloned.stdout.splitlines()]
    assert heading == [
        "run", "point", "repetition", "state", "throughput", "mean ms", "p99 ms", "errors", "thresholds", "verdict",
    ]  # fmt: skip
    assert row[:4] == ["1", "size=100", "1", "done"]
    assert row[-2].startswith("throughput >= 1000000000 (was ")
    assert row[-1] == "ok"
    [run] = lab_json(home, "show", "sweep-copy")["runs"]
    results = [(result["metric"], result["threshold"], result["ok"]) for result in run["thresholds"]]
    assert results == [("throughput", ">= 1000000000", False), ("errors", "== 0", True)]


def test_points_in_common_are_compared_and_settings_that_differ_are_told(home: Path, cloned: object) -> None:
    compared = lab_json(home, "compare", "sweep", "sweep-copy")
    assert {difference["label"] for difference in compared["differences"]} == {"size=100"}
    assert {difference["verdict"] for difference in compared["differences"]} == {"one run of B: no interval"}
    assert [change["setting"] for change in compared["settings"]] == [
        "name", "run.repetitions", "thresholds.throughput", "thresholds.errors", "design.factors.size.levels",
    ]  # fmt: skip
    assert "run.repetitions\t2\t1\n" in lab(home, "compare", "sweep", "sweep-copy").stdout


def test_single_points_are_compared_though_they_differ(home: Path, cloned: object, drawn: object) -> None:
    compared = lab_json(home, "compare", "sweep-copy", "drawn")
    assert {difference["metric"] for difference in compared["differences"]} >= {"throughput", "mean_ms", "p99_ms"}
    assert_one_sentence(
        lab(home, "compare", "sweep", "drawn-0002"), 4, "there is no series drawn-0002 in .*; the newest is"
    )


@pytest.mark.usefixtures("made")
def test_a_series_is_exported_imported_and_removed(home: Path, tmp_path: Path) -> None:
    assert lab(home, "export", "sweep-0001").stdout == "sweep-0001.zip\n"
    assert_one_sentence(lab(home, "export", "sweep-0001"), 1, "sweep-0001.zip exists already")
    assert lab(home, "import", "sweep-0001.zip").stdout == "sweep-0002\n"
    before, after = (lab_json(home, "show", name) for name in ("sweep-0001", "sweep-0002"))
    assert after["runs"] == before["runs"]

    refused = lab(home, "rm", "sweep-0002")  # asks, and gets no answer
    assert refused.returncode == 1
    assert "Delete sweep-0002 with 4 runs?" in refused.stderr
    assert lab_json(home, "show", "sweep-0002")["series"] == "sweep-0002"
    assert lab(home, "rm", "sweep-0002", "--yes").returncode == 0
    assert_one_sentence(lab(home, "show", "sweep-0002"), 4, "there is no series sweep-0002 in")
    assert lab_json(home, "show", "sweep-0001")["series"] == "sweep-0001"
    assert_one_sentence(lab(home, "import", "sweep.toml"), 1, "sweep.toml is not a complete zip file")
    assert_one_sentence(lab(home, "import", "nothing.zip"), 1, "there is no file nothing.zip")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            r'"size": (\d+)',
            r'"size": 1\1',
            r"sweep-0001 \(size=100; size=2000\) and other \(.*\) have no point in common",
        ),
        ('"state": "done"', '"state": "waiting"', "no run of other is done"),
    ],
    ids=["other points", "nothing done"],
)
def test_two_that_cannot_be_compared(home: Path, tmp_path: Path, old: str, new: str, says: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "runs").symlink_to(home / "runs/sweep-0001/runs")
    record = (home / "runs/sweep-0001/series.json").read_text()
    assert re.search(old, record)
    (other / "series.json").write_text(re.sub(old, new, record))
    assert_one_sentence(lab(home, "compare", "sweep-0001", str(other)), 1, says)


# On a terminal


def test_progress_is_drawn_on_a_terminal(drawn: str) -> None:
    assert "run 1 of 1" in drawn
    assert re.search(r"measure .*━.*\d:\d\d left", drawn)
    assert re.search(r"\d requests/s  ·  [\d.]+ ms  ·  0 errors", drawn)
    assert "\x1b[?25l" in drawn  # the cursor was hidden
    assert "\x1b[?25h" in drawn.rpartition("\x1b[?25l")[2]  # and is there again


def test_progress_is_gone_at_the_end_and_the_table_is_there(drawn: str) -> None:
    first, second, heading, row, end = [line.rstrip() for line in seen(drawn)]
    assert re.fullmatch(r"series drawn-0001: 1 run, in /.*", first)
    assert re.fullmatch(r"1 of 1: size=2000, repetition 1: [\d,.]+ requests/s, [\d.]+ ms", second)
    assert heading.split("  ")[:2] == ["run", "point"]
    assert re.fullmatch(r"  1  size=2000 .* ok", row)
    assert end == ""


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
    while len(lines) > row + 1 and not lines[-1]:
        lines.pop()
    return lines
