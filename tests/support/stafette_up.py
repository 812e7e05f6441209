"""A whole system in a data folder of its own, as one command starts it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command_line import stafette, stafette_process


@dataclass(frozen=True)
class System:
    """What `stafette up` started."""

    data: Path
    broker: str
    web: str
    secret: str

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the same data folder."""
        return stafette(*arguments, "--data", str(self.data))

    def viewers_secret(self) -> str:
        """A new secret for somebody who only looks."""
        made = self.command("web", "secret", "--role", "viewer")
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()


@contextmanager
def whole_system(data: Path) -> Iterator[System]:
    """PostgreSQL, a broker and the web console."""
    try:
        started = stafette_process("up", "--data", str(data), "--port", "0", "--web-port", "0")
        assert started.returncode == 0, started.stderr
        said = dict(re.findall(r"^(\w+) +(\S+)", started.stderr, re.MULTILINE))
        yield System(data, said["broker"], said["web"], said["secret"])
    finally:
        stafette_process("down", "--data", str(data))
