"""What all tests stand on."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let Ctrl-C mean what it means on a terminal: a shell that runs us in the background has it ignored, and so would
    every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
