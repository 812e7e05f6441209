"""`make demo`: the tour works twice in a row, can be watched in the console, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.command_line import stafette_process
from tests.support.folder_processes import processes_of

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"

pytestmark = pytest.mark.slow


class Tour:
    """One `demo.py`, and all it has said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""

    def read_until(self, pattern: str) -> str:
        """Read on until something is said; its first group."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"the demo did not say {pattern!r} but\n{self.said}")

    def end(self) -> int:
        """Hear it out; its exit code."""
        rest, _ = self.process.communicate(timeout=120)
        self.said += rest
        return self.process.returncode


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "demo"
    yield folder
    stafette_process("down", "--data", str(folder))


@contextmanager
def tour(data: Path, *more: str, variables: Mapping[str, str] | None = None) -> Iterator[Tour]:
    command = [sys.executable, str(DEMO), "--data", str(data), "--profile", "short", *more]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | dict(variables or {})
    )
    with process:
        try:
            yield Tour(process)
        finally:
            process.terminate()  # if a test failed before its end: it tidies up


def assert_shown(data: Path, told: Tour, series: str) -> None:
    """What the reader is to have in the end."""
    analysis = data / "runs" / series / "analysis"
    rows = json.loads((analysis / "summary.json").read_text())
    assert {row["operation"] for row in rows} >= {"send", "receive", "all"}
    assert "<html" in (analysis / "report.html").read_text()
    [whole] = [row for row in rows if (row["tier"], row["operation"]) == ("client", "all")]
    assert re.search(rf"^ +all answered +{whole['count']:,} ", told.said, re.MULTILINE)
    assert str(analysis / "report.html") in told.said


def test_twice_in_a_row_and_stopped_the_second_time(data: Path, no_java: dict[str, str]) -> None:
    with tour(data, variables=no_java) as first:
        web, secret = first.read_until(r"console +(http\S+)"), first.read_until(r"secret +(\S+)")
        page = first.read_until(r"watch it +(\S+)")
        first.read_until(r"^ +(measure)$")
        with httpx.Client(headers={"Authorization": f"Bearer {secret}", "Accept": "text/html"}) as browser:
            shown = browser.get(page)
            assert (shown.status_code, page.startswith(web)) == (200, True)
            with browser.stream("GET", f"{page}/events", timeout=60) as events:
                state = next(line for line in events.iter_lines() if line.startswith("data: "))
        assert json.loads(state.removeprefix("data: "))["phase"] in ("measure", "cool-down", "check")
        assert first.end() == 0, first.said
    assert_shown(data, first, "demo-0001")
    assert "It stays up" in first.said
    assert processes_of(data) != []

    with tour(data, "--stop", variables=no_java) as second:
        assert second.read_until(r"console +(http\S+)") == web  # what was up is used
        assert second.end() == 0, second.said
    assert_shown(data, second, "demo-0002")
    assert processes_of(data) == []


def test_ctrl_c_leaves_nothing_running_and_nothing_to_go_on_with(data: Path) -> None:
    with tour(data) as broken_off:
        broken_off.read_until(r"^ +(measure)$")
        assert processes_of(data) != []
        broken_off.process.send_signal(signal.SIGINT)
        assert broken_off.end() == 130, broken_off.said
    assert "everything is stopped" in broken_off.said
    assert "Traceback" not in broken_off.said
    assert processes_of(data) == []
    queue = json.loads((data / "runs" / "queue.json").read_text())
    assert (queue["waiting"], [job["state"] for job in queue["ended"]]) == ([], ["stopped"])


def test_what_fails_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with tour(tmp_path / "file" / "demo") as failed:
        assert failed.end() == 1
    assert "demo: " in failed.said
    assert "Not a directory; use a data folder that you may write" in failed.said
    assert "Traceback" not in failed.said
