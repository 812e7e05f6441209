"""Limits lines in the log: a stranger who makes us write the same line again and again must not fill the disk."""

from __future__ import annotations

import logging
import time

from stafette.database.audit import audit_log

LINES_PER_SECOND = 5


class LineLimit(logging.Filter):
    """Passes some lines of each kind per second; the next that passes says how many did not.

    Lines are of one kind if they come from one line of code, so there are not more kinds than that. The audit passes.
    """

    def __init__(self, lines_per_second: int = LINES_PER_SECOND) -> None:
        super().__init__()
        self._most = lines_per_second
        self._kinds: dict[tuple[str, int], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        if record.name == audit_log.name:
            return True
        kind = self._kinds.setdefault((record.pathname, record.lineno), _Kind())
        return kind.passes(record, time.monotonic(), self._most)


class _Kind:
    """Lines that one line of code writes."""

    def __init__(self) -> None:
        self._since = -1.0
        self._written = 0
        self._left_out = 0

    def passes(self, record: logging.LogRecord, now: float, most: int) -> bool:
        if now - self._since >= 1.0:
            self._since, self._written = now, 0
        if self._written == most:
            self._left_out += 1
            return False
        self._written += 1
        if self._left_out:
            record.msg, record.args = f"{record.getMessage()} (and {self._left_out:,} lines like this)", ()
            self._left_out = 0
        return True


def limit_lines() -> None:
    """Limit what all handlers of this process write."""
    limit = LineLimit()
    for handler in logging.getLogger().handlers:
        handler.addFilter(limit)
