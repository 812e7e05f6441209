"""Each command once as a process of its own, from a shell's point of view; other tests run most of them in theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stafette
from tests.support.command_line import CommandLine, everything_up, stafette_process
from tests.support.command_line import stafette as command
from tests.support.command_reference import commands

ELSEWHERE = {
    "up", "down",  # wherever everything is up
    "broker", "broker ctl shutdown",  # test_broker_process.py
    "web",  # web/
    "db start", "db stop", "db url", "db status", "db migrate", "db reset",  # test_cli_db.py
    "bench", "db bench",  # test_cli_bench.py
    "shell",  # test_shell.py
    "analyze",  # pipeline/test_cli_analyze.py
    "lab run",  # lab/
}  # fmt: skip
"""Commands that other tests start as processes."""

SAME = [
    ["--version"],
    ["status"],
    ["queue", "info", "jobs"],
    ["peek", "jobs", "--all"],
    ["peek", "nowhere"],
    ["client", "info", "alice"],
    ["lab", "ls"],
    ["lab", "show", "none"],
    ["lab", "compare", "none", "other"],
    ["completion", "bash"],
    ["factorial", "table.csv", "--factors", "memory,cache", "--response", "rt"],
    ["send", "jobs", "x", "--priority", "11"],
]
"""What these print does not depend on when they run."""

ONCE = [
    (["doctor"], 0, r"name\tstate\tfound\tremedy\n"),
    (["send", "sent", "x"], 0, r"\d+\n"),
    (["receive", "read"], 0, r"first\n"),
    (["request", "sent", "?", "--timeout", "0.1"], 5, r""),
    (["reply", "read", "42"], 0, r"\d+\n"),
    (["queue", "ls"], 0, r"name\tmessages\towner\tcreator\tcreated\n(.*\n)*jobs\t2\t"),
    (["queue", "create", "new"], 0, r"new\n"),
    (["queue", "purge", "full", "--yes"], 0, r"1\n"),
    (["queue", "rm", "empty", "--yes"], 0, r""),
    (["client", "ls"], 0, r"name\tmode\tbroker\tregistered\tlast seen\n(.*\n)*alice\tfull\t"),
    (["client", "rm", "bob", "--yes"], 0, r""),
    (["web", "secret"], 0, r"\S+\n"),
    (["broker", "ctl", "status"], 0, r"."),
    (["broker", "ctl", "stacks"], 0, r"(.*\n)*.*Thread MainThread"),
    (["broker", "ctl", "memory"], 0, r"."),
    (["lab", "clone", "none"], 4, r""),
    (["lab", "export", "none"], 4, r""),
    (["lab", "import", "none.zip"], 1, r""),
    (["lab", "rm", "none", "--yes"], 4, r""),
]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with everything_up(tmp_path_factory.mktemp("smoke") / "data") as command_line:
        with stafette.connect(command_line.url, name="bob"), stafette.connect(command_line.url, name="alice") as alice:
            for queue in ("jobs", "sent", "read", "full", "empty"):
                alice.create_queue(queue)
            for queue in ("jobs", "read"):
                alice.send_many([(queue, "first"), (queue, "second")])
            alice.send("full", "x")
        yield command_line


@pytest.fixture
def settings(cli: CommandLine, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "table.csv").write_text("memory,cache,rt\n4,1,15\n16,1,45\n4,2,25\n16,2,75\n")
    return {"STAFETTE_DATA": str(cli.data), "STAFETTE_RUNS": str(tmp_path / "runs")}


@pytest.mark.parametrize("arguments", SAME, ids=" ".join)
def test_a_process_prints_what_the_command_prints_here(
    arguments: list[str], settings: dict[str, str], tmp_path: Path
) -> None:
    process = stafette_process(*arguments, cwd=tmp_path, **settings)
    here = command(*arguments, cwd=tmp_path, **settings)
    assert (process.returncode, process.stdout, process.stderr) == (here.returncode, here.stdout, here.stderr)
    assert process.stdout + process.stderr != ""


@pytest.mark.parametrize(("arguments", "code", "prints"), ONCE, ids=[" ".join(arguments) for arguments, _, _ in ONCE])
def test_a_process_does_what_it_should(
    arguments: list[str], code: int, prints: str, settings: dict[str, str], tmp_path: Path
) -> None:
    process = stafette_process(*arguments, cwd=tmp_path, **settings)
    assert process.returncode == code, process.stderr
    assert re.match(prints, process.stdout), process.stdout
    assert code == 0 or re.fullmatch(r"stafette: [^\n]+\n", process.stderr), process.stderr


def test_every_command_is_started_as_a_process() -> None:
    lines = [f"{' '.join(arguments)} " for arguments in (*SAME, *(arguments for arguments, _, _ in ONCE))]
    names = [[name for name in commands() if line.startswith(f"{name} ")] for line in lines]
    started = {max(matching, key=len) for matching in names if matching}  # `web secret` is not `web`
    assert set(commands()) - started == ELSEWHERE
