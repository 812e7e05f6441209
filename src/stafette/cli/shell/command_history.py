"""The history of typed lines, in a file that only its owner can read. Lines with secrets are not stored."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_SECRET = re.compile(r"""(^|[\s"'])secret=|--secret\b""", re.IGNORECASE)


def history_file() -> Path:
    """The path of the history, as the XDG Base Directory Specification has it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "stafette" / "shell_history"


def may_store(line: str) -> bool:
    """Whether a line may be stored: not if it begins with a space or has a secret in it."""
    return bool(line.strip()) and not line.startswith(" ") and not _SECRET.search(line)


class FilteredHistory(FileHistory):
    """A history in a file, without lines that must not be stored."""

    def append_string(self, string: str) -> None:
        """Add a line, unless it must not be stored."""
        if may_store(string):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Write a line; an error, such as a full disk, is ignored."""
        with contextlib.suppress(OSError):
            super().store_string(string)


def open_history(path: Path) -> History:
    """The history in this file; if it cannot be written, a history in memory."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FilteredHistory(path)
