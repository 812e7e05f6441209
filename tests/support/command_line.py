"""The command as a script uses it, against everything that `stafette up` starts in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_SECONDS

COMMAND = Path(sys.executable).with_name("stafette")
COMMAND_SECONDS = 300.0
"""Longer than a whole series of experiments takes here; a command that hangs fails its test."""


def clean_environment() -> dict[str, str]:
    """The environment without our settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")}


def stafette_process(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as a process of its own, without anything on its standard input."""
    return subprocess.run(
        [COMMAND, *arguments],
        env=clean_environment() | environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
    )


stafette = stafette_process


def assert_one_sentence(done: subprocess.CompletedProcess[str], exit_code: int, says: str) -> None:
    """The command printed nothing, and said one sentence."""
    assert done.returncode == exit_code, done.stderr
    assert done.stdout == ""
    assert re.fullmatch(rf"stafette: [^\n]*{says}[^\n]*\n", done.stderr), done.stderr


class CommandLine:
    """Runs commands that talk to one broker."""

    def __init__(self, data: Path, url: str) -> None:
        self.data = data
        self.url = url

    def environment(self, **more: str) -> dict[str, str]:
        return clean_environment() | {"STAFETTE_URL": self.url} | more

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """What a command prints, without anything on its standard input."""
        done = stafette(*arguments, cwd=None, **{"STAFETTE_URL": self.url, **environment})
        assert done.returncode == code, done.stderr
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def piped(self, given: bytes, *arguments: bytes | str, code: int = 0) -> bytes:
        """What a command prints when something comes through a pipe."""
        done = subprocess.run(
            [COMMAND, *arguments], env=self.environment(), input=given, capture_output=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """A command that goes on by itself."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given: dict[str, Any] = pipes | {"env": self.environment()} | options
        started: subprocess.Popen[bytes] = subprocess.Popen([COMMAND, *arguments], **given)
        return started


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that a command prints; one that prints none fails the test instead of holding it up."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    if not ready:
        process.kill()
    assert ready, "the command prints nothing"
    return process.stdout.readline()


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for the end of a command: its exit code, and the rest of what it printed and said."""
    try:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


@contextmanager
def everything_up(data: Path) -> Iterator[CommandLine]:
    """Start it, and stop it at the end."""
    try:
        started = stafette("up", "--data", str(data), "--port", "0", "--no-web")
        assert started.returncode == 0, started.stderr
        yield CommandLine(data, started.stdout.strip())
    finally:
        stafette("down", "--data", str(data))
