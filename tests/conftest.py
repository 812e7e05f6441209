"""What all tests stand on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ONE_OF_EACH = {
    HERE / "browser": "browser",
    HERE / "integration" / "pipeline": "spark",
    HERE / "unit" / "pipeline": "spark",
}
"""Tests of these folders run in one process, because they share a browser, or a Spark, that is slow to start."""
OWN_SPARK = ("test_cluster.py", "test_cli_analyze.py")


def pytest_configure() -> None:
    """Let Ctrl-C mean what it means on a terminal: a shell that runs us in the background has it ignored, and so would
    every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in the same hook, before us otherwise
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests belong into one process when several run side by side: those of a file at least."""
    for item in items:
        shared = None if item.path.name in OWN_SPARK else ONE_OF_EACH.get(item.path.parent)
        item.add_marker(pytest.mark.xdist_group(shared or str(item.path.relative_to(HERE))))
