"""The user that PostgreSQL runs as, and how that user gets to our files.

PostgreSQL refuses to run as root. An ordinary user runs it; root hands it to an unprivileged user, who may be barred
from root's folders. Whatever is in the way stays as it is: nothing but what we make ourselves changes hands.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stafette.errors import InvalidRequest

CANDIDATES = ("stafette", "postgres", "nobody")  # for root: the first that exists
OPEN_FILES = Path("/proc/self/fd")


class ServerUser(NamedTuple):
    """The user that the server runs as."""

    uid: int
    gid: int

    @classmethod
    def of(cls, cluster: Path) -> ServerUser:
        """Choose the user for this cluster: ourselves or, for root, its owner or the first candidate."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
            return cls(owner.st_uid, owner.st_gid)
        for name in CANDIDATES:
            with suppress(KeyError):
                user = pwd.getpwnam(name)
                return cls(user.pw_uid, user.pw_gid)
        raise InvalidRequest(f"PostgreSQL does not run as root; make a user named {CANDIDATES[0]} for it")

    def run(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
        text: str = "",
        output: BinaryIO | int = subprocess.DEVNULL,
    ) -> int:
        """Run a command as this user, with some text to read, and return its exit status."""
        inherited = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}  # and no secrets of ours
        root = os.geteuid() == 0  # only root changes the user: then Python copies itself first, 20 ms when it is large
        return subprocess.run(
            command,
            user=self.uid if root else None,
            group=self.gid if root else None,
            extra_groups=[] if root else None,
            cwd="/",
            env={**inherited, **(environment or {})},
            pass_fds=keep_open,
            input=text.encode(),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode

    def reaches(self, path: Path) -> bool:
        """Tell whether this user can enter the folder, or run the program."""
        return self.run(["test", "-x", path]) == 0

    @contextmanager
    def entrance(self, folder: Path) -> Iterator[tuple[Path, tuple[int, ...]]]:
        """Yield a path by which this user can enter the folder, and the open files that must be kept for it.

        The plain path serves, unless a parent is root's alone (as after mktemp -d). Then the link in /proc to an open
        folder leads past the parents. The number means the same folder in every process that inherits the open file.
        """
        if self.reaches(folder):
            yield folder, ()
        elif not OPEN_FILES.is_dir():
            raise InvalidRequest(f"PostgreSQL runs as user {self.uid}, who cannot enter {folder}; use another folder")
        else:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                yield OPEN_FILES / str(opened), (opened,)
            finally:
                os.close(opened)

    def make_private(self, folder: Path) -> None:
        """Make a folder that only this user can enter; refuse one that somebody else put there first."""
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        ours = found.st_uid in (self.uid, os.geteuid())  # root's for the moment between mkdir and chown
        if not (ours and stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700):
            raise InvalidRequest(f"{folder} must be a folder that only user {self.uid} can enter; remove it")
        os.chown(folder, *self, follow_symlinks=False)

    def write(self, path: Path, text: str) -> None:
        """Write a file of this user's, whole or not at all, and never through a link that was laid in its place."""
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            os.fchown(file.fileno(), *self)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def open(self, path: Path) -> BinaryIO:
        """Open a file of this user's to lock it or to append to it."""
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.fchown(descriptor, *self)
        return os.fdopen(descriptor, "ab")
