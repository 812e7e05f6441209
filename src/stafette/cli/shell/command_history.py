"""What was typed, kept for the next time in a file that only its owner can read. Secrets are not kept."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_SECRET = re.compile(r"""(^|[\s"'])secret=|--secret\b""", re.IGNORECASE)


def history_file() -> Path:
    """Where the history is, by the rules of freedesktop.org."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "stafette" / "shell_history"


def is_kept(line: str) -> bool:
    """Whether a line goes into the history: not one that begins with a space, nor one with a secret in it."""
    return bool(line.strip()) and not line.startswith(" ") and not _SECRET.search(line)


class KeptHistory(FileHistory):
    """A history in a file, of what may be kept."""

    def append_string(self, string: str) -> None:
        """Keep a line, unless it must not be."""
        if is_kept(string):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Write a line; a full disk does not stop the conversation."""
        with contextlib.suppress(OSError):
            super().store_string(string)


def open_history(path: Path) -> History:
    """The history in this file, or where there can be none, one for this time only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return KeptHistory(path)
