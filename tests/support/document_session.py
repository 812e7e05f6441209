"""A page's code, run as a reader would: one shell, one empty folder, one data folder, the blocks in their order.

All blocks become one script for one bash, so that variables, `cd` and what runs in the background last from block to
block. Ports are the one thing that differs from the page: other tests run at the same time, so each port that a page
names stands for a free one, and back again in what is printed.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from stafette.database.embedded import binaries
from tests.support.command_line import clean_environment
from tests.support.document_pages import ROOT, Block, blocks
from tests.support.free_ports import free_ports

TIMEOUT_SECONDS = 300.0  # so that a page that waits for ever fails instead of holding up all others
PORT = re.compile(r"(?<![\d.])(?:74[789]\d|543\d|947\d)(?!\d)")
DEFAULT_PORTS = {"broker": "7470", "web": "7471"}
ANYTHING = "…"
SUFFIX = {"sh": "sh", "python": "py", "sql": "sql"}
START = {
    "sh": "source {block}",
    "python": "python - <{block}",
    "sql": '{{ database=$(stafette db url); psql --no-psqlrc --set ON_ERROR_STOP=1 "$database" <{block}; }}',
}
PLAIN = """#!/bin/bash
# Ports that the command takes by itself are those of this session, too; and nobody wants to know how fast it was.
case "${{1:-}}" in
  up) shift; exec {real} up --port {broker} --web-port {web} "$@" ;;
  broker) shift; exec {real} broker --port {broker} "$@" ;;
  web) shift; exec {real} web --port {web} "$@" ;;
  bench) shift; exec {real} bench --url stafette://127.0.0.1:{broker} "$@" --seconds 0.5 ;;
  *) exec {real} "$@" ;;
esac
"""


def run_page(page: Path, variables: Mapping[str, str] | None = None) -> None:
    """Run all that a page wants to be run; an AssertionError says where it went wrong and what was printed."""
    parts = blocks(page)
    if not any(part.part == "run" for part in parts):
        return
    with _folder() as folder:
        Session(page, parts, folder, variables or {}).run()


class Session:
    """One page, run once."""

    def __init__(self, page: Path, parts: list[Block], folder: Path, variables: Mapping[str, str]) -> None:
        self._page = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
        self._parts, self._variables = parts, variables
        named = {*DEFAULT_PORTS.values(), *(port for part in parts for port in PORT.findall(part.text))}
        self._ports = dict(zip(sorted(named), map(str, free_ports(len(named))), strict=True))
        self._folder = folder
        self._scripts, self._home, self._bin = folder / "scripts", folder / "page", folder / "bin"
        for made in (self._scripts, self._home, self._bin, folder / "home"):
            made.mkdir()
        self._write_command()

    def run(self) -> None:
        """Run the blocks, look at what they printed, and leave nothing running."""
        script = self._scripts / "session"
        script.write_text(
            "\n".join(line for number, part in enumerate(self._parts) for line in self._lines(number, part))
        )
        shell = subprocess.Popen(
            ["bash", script], cwd=self._home, env=self._environment(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            shell.wait(TIMEOUT_SECONDS)
            self._check_end(shell.returncode)
            self._check_prints()
            assert not (left := self._running()), f"{self._page}: at its end still runs: {', '.join(left)}"
        except BaseException as failure:  # also Ctrl-C: what a page starts outlives it
            self._stop_systems()
            if isinstance(failure, subprocess.TimeoutExpired):
                story = self._story(self._reached(), f"takes more than {TIMEOUT_SECONDS:g} seconds")
                raise AssertionError(story) from None
            raise
        finally:
            self._end(shell)

    # The script

    def _lines(self, number: int, part: Block) -> Iterator[str]:
        """What bash does for a block."""
        if part.part == "compare":
            return
        block = self._scripts / f"{number}.{SUFFIX.get(part.language, 'txt')}"
        block.write_text(self._here(part.text))
        yield f"set -euo pipefail; echo {number} >{self._scripts}/reached"
        if part.part == "write":
            target = shlex.quote(str(self._home / part.name))
            yield f'mkdir -p "$(dirname {target})"; cp {block} {target}'
            return
        start = START[part.language].format(block=block)
        stdin = " </dev/null" if part.language == "sh" else ""
        printed = f"{stdin} >{self._printed_file(number)} 2>&1"
        if part.exit_code == 0:
            yield start + printed
        else:  # in a shell of its own, whose end is not that of the session
            yield f"set +e; ( set -e; {start} ){printed}; code=$?; set -e; [ $code = {part.exit_code} ] || exit $code"
        if number == self._last_run:
            yield f"echo end >{self._scripts}/reached"

    @property
    def _last_run(self) -> int:
        return max(number for number, part in enumerate(self._parts) if part.part == "run")

    def _here(self, text: str) -> str:
        """A page's text with this session's ports, and the command as it is called here."""
        text = re.sub(r"(?<!\S)(?:\./)?\.venv/bin/", "", text)
        return PORT.sub(lambda found: self._ports[found[0]], text)

    def _write_command(self) -> None:
        command = self._bin / "stafette"
        ports = {kind: self._ports[port] for kind, port in DEFAULT_PORTS.items()}
        command.write_text(PLAIN.format(real=shlex.quote(str(Path(sys.executable).with_name("stafette"))), **ports))
        command.chmod(0o755)

    def _environment(self) -> dict[str, str]:
        places = [self._bin, Path(sys.executable).parent, binaries.in_wheel(), os.environ.get("PATH", os.defpath)]
        return clean_environment() | {
            "STAFETTE_DATA": str(self._folder / "data"),
            "HOME": str(self._folder / "home"),
            "PATH": os.pathsep.join(map(str, places)),
            "PYTHONUNBUFFERED": "1",  # else what goes to standard error overtakes what goes to standard output
            "LC_ALL": "C.UTF-8",
            **self._variables,
        }

    # What came of it

    def _printed_file(self, number: int) -> Path:
        return self._scripts / f"{number}.printed"

    def _printed(self, number: int) -> str:
        """What a block printed, with the page's ports."""
        file = self._printed_file(number)
        text = file.read_text(errors="replace") if file.exists() else ""
        for on_page, here in self._ports.items():
            text = re.sub(rf"(?<!\d){here}(?!\d)", on_page, text)
        return text

    def _reached(self) -> int:
        return int((self._scripts / "reached").read_text())

    def _check_end(self, exit_code: int) -> None:
        if (self._scripts / "reached").read_text().strip() == "end" and exit_code == 0:
            return
        number = self._reached()
        expected = self._parts[number].exit_code
        wanted = f", not {expected}" if expected else ""
        raise AssertionError(self._story(number, f"ended with exit code {exit_code}{wanted}"))

    def _check_prints(self) -> None:
        last = -1
        for number, part in enumerate(self._parts):
            if part.part == "run":
                last = number
            elif part.part == "compare" and not fits(part.text, self._printed(last)):
                lines = difflib.unified_diff(
                    part.text.splitlines(), self._printed(last).splitlines(), "page", "printed", lineterm="", n=99
                )
                ran = self._parts[last].line
                raise AssertionError(
                    f"{self._page}:{part.line}: the block in line {ran} prints something else\n" + "\n".join(lines)
                )

    def _story(self, number: int, what: str) -> str:
        part = self._parts[number]
        return (
            f"{self._page}:{part.line}: the block {what}\n--- the block\n{part.text.rstrip()}\n"
            f"--- it printed\n{self._printed(number).rstrip() or '(nothing)'}"
        )

    # The end

    def _data_folders(self) -> list[Path]:
        """Wherever this page has told Stafette to keep its data."""
        return sorted({found.parent for name in ("postgres.lock", "run") for found in self._folder.rglob(name)})

    def _running(self) -> list[str]:
        found = []
        for data in self._data_folders():
            status = self._command("status", "--json", "--data", str(data))
            with suppress(json.JSONDecodeError):
                said = json.loads(status.stdout)
                found += [f"{kind} {said[kind]}" for kind in ("broker", "web", "database") if said.get(kind)]
        return found

    def _command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "stafette", *arguments]
        return subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, check=False, timeout=120
        )

    def _stop_systems(self) -> None:
        """Let what a page that failed has left end in good order."""
        for data in self._data_folders():
            self._command("down", "--data", str(data))

    def _end(self, shell: subprocess.Popen[bytes]) -> None:
        """End whatever is still there."""
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        for server in self._folder.rglob("postmaster.pid"):  # a PostgreSQL that the page has started by itself
            with suppress(OSError, ValueError, IndexError):
                pid = int(server.read_text().split()[0])
                if Path(f"/proc/{pid}/cwd").resolve() == server.parent.resolve():
                    os.kill(pid, signal.SIGQUIT)


def fits(page: str, printed: str) -> bool:
    """Whether a block printed what the page says; a line … stands for any lines, and … within a line for anything."""
    pattern = ""
    for line in _lines_of(page):
        if line.strip() == ANYTHING:
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += "[^\n]*".join(re.escape(piece) for piece in line.split(ANYTHING)) + "\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines_of(printed))) is not None


def _lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that every user can enter, as PostgreSQL's must when root runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="stafette-page-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
