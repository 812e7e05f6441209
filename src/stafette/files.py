"""Files that are complete or absent, and locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


def write_atomically(path: Path, content: bytes | str, *, mode: int | None = None) -> None:
    """Write a file that readers see complete or not at all, also after a power cut."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode or 0o666), "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)  # whatever the umask
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def try_lock(file: int | IO[bytes] | IO[str], *, shared: bool = False) -> bool:
    """Lock an open file, or its descriptor; False when another process holds a lock that excludes this one."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
