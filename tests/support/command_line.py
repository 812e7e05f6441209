"""The command as a script uses it: in this process, where only what it prints matters, or as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stafette.cli import main
from tests.support.waiting import TIMEOUT_SECONDS

COMMAND = Path(sys.executable).with_name("stafette")
COMMAND_SECONDS = 300.0
"""Longer than a whole series of experiments takes here; a command that hangs fails its test."""
_one_at_a_time = threading.Lock()


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


def stafette(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, which has loaded the libraries; its standard input is empty."""
    code, out, err = run_here(arguments, cwd=cwd, environment=environment)
    return subprocess.CompletedProcess(["stafette", *arguments], code, out.decode(), err.decode())


def run_here(
    arguments: tuple[str, ...], *, stdin: bytes = b"", cwd: Path | None = None, environment: dict[str, str]
) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error of a command in this process.

    Commands have an event loop of their own. Where one runs already, they run in a thread, and that one waits.
    """
    run = partial(_run_main, arguments, stdin, cwd, clean_environment() | environment)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def _run_main(
    arguments: tuple[str, ...], stdin: bytes, cwd: Path | None, environment: dict[str, str]
) -> tuple[int, bytes, bytes]:
    out, err = io.BytesIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, "utf-8", errors="surrogateescape")
    stderr = io.TextIOWrapper(err, "utf-8", errors="backslashreplace", write_through=True)
    with (
        _one_at_a_time,  # what follows is the whole process's
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape") as given,
        pytest.MonkeyPatch.context() as patch,
        _own_environment(environment),
        _own_logging(),
        _own_umask(),
        contextlib.chdir(cwd or Path.cwd()),
    ):
        given.buffer.write(stdin)
        given.seek(0)
        patch.setattr("sys.argv", ["stafette", *arguments])
        patch.setattr("sys.stdin", given)
        patch.setattr("sys.stdout", stdout)
        patch.setattr("sys.stderr", stderr)
        patch.setattr("gc.freeze", lambda: None)  # a process that ends needs no collection; this one does
        patch.setattr("stafette.cli.privileges.become", lambda user: None)  # this process stays who it is
        if threading.current_thread() is not threading.main_thread():
            patch.setattr("signal.signal", lambda number, handler: None)  # which Python refuses here; nobody sends any
        code = _exit_code_of_main()
        stdout.flush()
    return code, out.getvalue(), err.getvalue()


def _exit_code_of_main() -> int:
    """As Python would end with it."""
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _own_umask() -> Iterator[None]:
    before = os.umask(0)
    os.umask(before)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _own_environment(environment: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _own_logging() -> Iterator[None]:
    """No handlers, as in a new process; those of this one, and its levels, come back."""
    loggers = [logging.getLogger(), logging.getLogger("asyncpg")]
    before = [(logger.handlers, logger.level) for logger in loggers]
    for logger in loggers:
        logger.handlers = []
    try:
        yield
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers = handlers
            logger.setLevel(level)


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
        completed = stafette(*arguments, cwd=None, **{"STAFETTE_URL": self.url, **environment})
        assert completed.returncode == code, completed.stderr
        return completed.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def fed(self, given: bytes, *arguments: str, code: int = 0) -> bytes:
        """What a command prints when it reads something from its standard input."""
        returncode, out, err = run_here(arguments, stdin=given, environment={"STAFETTE_URL": self.url})
        assert returncode == code, err
        return out

    def piped(self, given: bytes, *arguments: bytes | str, code: int = 0) -> bytes:
        """What a process prints when something comes through a pipe."""
        completed = subprocess.run(
            [COMMAND, *arguments], env=self.environment(), input=given, capture_output=True, check=False
        )
        assert completed.returncode == code, completed.stderr
        return completed.stdout

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """A command that goes on by itself."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given: dict[str, Any] = pipes | {"env": self.environment()} | options
        started: subprocess.Popen[bytes] = subprocess.Popen([COMMAND, *arguments], **given)
        return started


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that a command prints; one that prints none fails the test instead of holding it up."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], TIMEOUT_SECONDS)
    if not ready:
        process.kill()
    assert ready, "the command prints nothing"
    return process.stdout.readline()


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for the end of a command: its exit code, and the rest of what it printed and said."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


@contextmanager
def everything_up(data: Path) -> Iterator[CommandLine]:
    """Start it, and stop it at the end."""
    try:
        started = stafette_process("up", "--data", str(data), "--port", "0", "--no-web")
        assert started.returncode == 0, started.stderr
        yield CommandLine(data, started.stdout.strip())
    finally:
        stafette_process("down", "--data", str(data))
