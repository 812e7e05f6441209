"""Sparks that run in processes of their own, and the command that uses them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from stafette.pipeline import java
from tests.support.waiting import blocking_until

SPARK = Path(pyspark.__file__).parent
TIMEOUT_SECONDS = 240


@contextmanager
def server(folder: Path, *command: str, says: str) -> Iterator[str]:
    """A process of Spark's; yields what it says when it is ready."""
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

        yield blocking_until(ready, TIMEOUT_SECONDS)[1]
    finally:
        process.terminate()
        process.wait()


def conf(*settings: str) -> list[str]:
    """Settings as Spark's commands and ours take them."""
    return [part for setting in settings for part in ("--conf", setting)]


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `stafette analyze`."""
    command = [sys.executable, "-m", "stafette", "analyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
