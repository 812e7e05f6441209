"""What the client says of its connection, in lines for the person at a terminal."""

from __future__ import annotations

import logging
import sys

from stafette.cli.output import say

CLEAR_LINE = "\r\x1b[K"
"""On a terminal there may be a line of progress."""


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a line to standard error."""
        say((CLEAR_LINE if sys.stderr.isatty() else "") + record.getMessage())


_lines = _Lines(logging.INFO)


def show_connection_log() -> None:
    """From now on say when the connection is lost, and when there is one again."""
    log = logging.getLogger("stafette.client")
    log.addHandler(_lines)  # once, however often this is called
    log.setLevel(logging.INFO)
