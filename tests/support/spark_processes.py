"""Sparks that run in processes of their own, and the command that uses them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

import stafette
from stafette.pipeline import java
from tests.support.waiting import blocking_until

SPARK = Path(pyspark.__file__).parent
TIMEOUT_SECONDS = 240


@dataclass(frozen=True)
class Server:
    """A process of Spark's, and what it said when it was ready."""

    said: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it and its executors at once."""
        for process in [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


@contextmanager
def server(folder: Path, *command: str, says: str) -> Iterator[Server]:
    """A process of Spark's that is ready."""
    environment = os.environ | {
        "JAVA_HOME": str(java.home()),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SPARK / "bin" / command[0], *command[1:]], env=environment, stdout=output, stderr=output, cwd=folder
        )
    try:

        def ready() -> re.Match[str] | None:
            assert process.poll() is None, log.read_text()
            return re.search(says, log.read_text())

        yield Server(blocking_until(ready, TIMEOUT_SECONDS)[1], process)
    finally:
        process.terminate()
        process.wait()


def conf(*settings: str) -> list[str]:
    """Settings as Spark's commands and ours take them."""
    return [part for setting in settings for part in ("--conf", setting)]


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `stafette analyze`."""
    return _run(sys.executable, "-m", "stafette", "analyze", *arguments)


def submitted(options: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `stafette analyze` as `spark-submit` does."""
    program = Path(stafette.__file__).with_name("__main__.py")
    environment = {"JAVA_HOME": str(java.home()), "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
    return _run(SPARK / "bin" / "spark-submit", *options, program, "analyze", *arguments, environment=environment)


def _run(*command: str | Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=os.environ | dict(environment or {}), capture_output=True, text=True, check=False,
        timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
