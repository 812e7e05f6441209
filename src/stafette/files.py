"""Files that are complete or absent, private, and from whom we expect; locks that end with who holds them."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import IO

from stafette.errors import InvalidRequest

PRIVATE = 0o077
"""What others may not do with our files and folders."""


def keep_private() -> None:
    """Let this process and its children write files with 0600 and folders with 0700, unless they say otherwise."""
    os.umask(PRIVATE)


def make_private_folder(folder: Path) -> None:
    """Make a folder with 0700, unless it exists, and its parents, which root lets others pass: it may be for them."""
    for parent in [path for path in folder.parents if not path.exists()][::-1]:
        parent.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            parent.chmod(0o755)
    folder.mkdir(mode=0o700, exist_ok=True)


def trusted_owners() -> tuple[int, ...]:
    """Whose files may tell this process what to do: its own user's and root's."""
    return (0, os.geteuid())


def read_trusted(path: Path) -> str:
    """Read a file that tells us what to do; refuse one that another user wrote, or could have written.

    Also the link is checked if it is one, and a pipe, which would keep us waiting, is not opened for long.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        for status in (path.lstat(), os.fstat(descriptor)):
            if status.st_uid not in trusted_owners():
                raise InvalidRequest(
                    f"{path.absolute()} belongs to another user (id {status.st_uid}) and is not read; remove it, go to"
                    " another folder, or make it yours with chown"
                )
        others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != os.getegid() else 0)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & others:
            raise InvalidRequest(
                f"other users may write {path.absolute()}, which is therefore not read; `chmod go-w {path}` helps"
            )
        return file.read()


def check_key_file(path: Path) -> None:
    """Refuse a private key that other users can read: 0600, or 0640 when it belongs to root, as PostgreSQL has it."""
    status = path.stat()
    if status.st_uid not in trusted_owners():
        raise InvalidRequest(
            f"the key {path} belongs to another user (id {status.st_uid}); give it to root or to the user who starts"
            " this with chown"
        )
    allowed = 0o640 if status.st_uid == 0 else 0o600
    if stat.S_IMODE(status.st_mode) & PRIVATE & ~allowed:
        raise InvalidRequest(f"other users can read the key {path}, or write it; `chmod {allowed:o} {path}` helps")


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
