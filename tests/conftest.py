"""What all tests stand on, and how they are shared out when several processes run them."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

HERE = Path(__file__).parent
ONE_OF_EACH = {"browser": "browser", "integration/pipeline": "spark"}
"""Tests of these folders run in one process, because they share a browser, or a Spark, that is slow to start."""
APART = ("browser/test_lab.py",)
"""Long enough to be worth a browser of its own."""
PAGES = "documents/test_pages.py"
"""Each of its tests starts a system of its own, and some take a minute."""
FIRST = ("spark", "browser", PAGES, "integration/lab", "integration/test_demo", "integration/web")
"""What takes longest begins first, so that nobody waits for it at the end."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that ends before its best compiler has earned back its time: a small analysis takes 31 % less of it."""
MEMORY = Path("/dev/shm")
ROOM = 8 * 2**30
"""Bytes that tests may have lying about at a time, and as much again."""


def group(path: Path) -> str:
    """Which tests belong together: those of a file at least."""
    place = path.relative_to(HERE)
    shared = None if place.as_posix() in APART else ONE_OF_EACH.get(place.parent.as_posix())
    return shared or place.as_posix()


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # it is not typed
    """Gives whole groups to a process, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        mine = group(HERE.parent / nodeid.partition("::")[0])
        return nodeid if mine == PAGES else mine


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Share tests out by our groups; the marks that xdist has for this do nothing with this pytest."""
    return Groups(config, log)


def pytest_configure() -> None:
    """Let Ctrl-C mean what it means on a terminal: a shell that runs us in the background has it ignored, and so would
    every process that a test starts and interrupts. And let every Spark start quickly, and files be in memory."""
    gc.disable()  # until all is collected, which makes hardly anything that could be freed
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for java in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(java, SHORT_LIVED)
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it may have been chosen before


def _has_room(folder: Path) -> bool:
    """Whether tests can have their files there. Each of a hundred servers makes and removes a thousand, and after so
    many were removed a disk's file system takes twice as long for a new one."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those that take longest first."""

    def place(item: pytest.Item) -> int:
        mine = group(item.path)
        return next((place for place, first in enumerate(FIRST) if mine.startswith(first)), len(FIRST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """What thousands of tests and all they import have made lasts to the end: no need to look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()
