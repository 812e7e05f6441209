"""A whole system in a data folder of its own, as one command starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class System:
    """What `stafette up` started."""

    data: Path
    broker: str
    web: str
    secret: str

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the same data folder."""
        return run(*arguments, "--data", str(self.data))

    def viewers_secret(self) -> str:
        """A new secret for somebody who only looks."""
        made = self.command("web", "secret", "--role", "viewer")
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "stafette", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def whole_system(data: Path) -> Iterator[System]:
    """PostgreSQL, a broker and the web console."""
    try:
        started = run("up", "--data", str(data), "--port", "0", "--web-port", "0")
        assert started.returncode == 0, started.stderr
        said = dict(re.findall(r"^(\w+) +(\S+)", started.stderr, re.MULTILINE))
        yield System(data, said["broker"], said["web"], said["secret"])
    finally:
        run("down", "--data", str(data))
