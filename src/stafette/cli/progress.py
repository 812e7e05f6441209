"""A line on standard error while work takes more than a second; on a terminal only, and cleared at the end."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

DELAY_SECONDS = 1.0
"""Shorter work shows no line; also the interval between updates."""


class Progress:
    """A line that appears after a second, is updated every second, and is cleared at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        """What the line says; may be changed at any time."""
        self._is_visible = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def _show(self) -> None:
        while not self._ended.wait(DELAY_SECONDS):
            print(f"\r\x1b[K{self.text}", end="", file=sys.stderr, flush=True)
            self._is_visible = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_visible:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
