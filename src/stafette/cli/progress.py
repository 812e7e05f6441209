"""One line on standard error for what takes more than a second, on a terminal only; it goes when the work is done."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

PATIENCE_SECONDS = 1.0
"""What takes no longer than this needs no explanation."""


class Progress:
    """A line that appears after a second, changes at most that often, and is cleared at the end."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        """What the line says; set it to something newer at any time."""
        self._shown = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def _show(self) -> None:
        while not self._over.wait(PATIENCE_SECONDS):
            print(f"\r\x1b[K{self.sentence}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
