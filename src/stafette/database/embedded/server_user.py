"""The user that PostgreSQL runs as, and all processes that root starts, and how that user gets to our files.

PostgreSQL refuses to run as root. An ordinary user runs it; root hands it to an unprivileged user, who may be barred
from root's folders. Whatever is in the way stays as it is: nothing but what we make ourselves changes hands. That user
is never `nobody`, as whom other programs run, too: they could read what is ours.
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

CANDIDATES = ("stafette", "postgres")  # for root: the first that exists
NOBODY = "nobody"
OPEN_FILES = Path("/proc/self/fd")


class ServerUser(NamedTuple):
    """The user that the server runs as."""

    uid: int
    gid: int

    @classmethod
    def of(cls, cluster: Path) -> ServerUser:
        """Choose the user for this cluster: ourselves or, for root, its owner, its folder's, or the first candidate."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        for path in (cluster, cluster.parent):
            with suppress(FileNotFoundError, NotADirectoryError):
                if (owner := path.stat()).st_uid != 0:
                    return cls(owner.st_uid, owner.st_gid)
        return cls.candidate()

    @classmethod
    def candidate(cls) -> ServerUser:
        """The first candidate that exists."""
        for name in CANDIDATES:
            with suppress(KeyError):
                user = pwd.getpwnam(name)
                return cls(user.pw_uid, user.pw_gid)
        raise InvalidRequest(
            "what root starts runs as an unprivileged user, and there is none for it; make one with"
            f" `useradd --system {CANDIDATES[0]}`"
        )

    @property
    def name(self) -> str:
        """The name, or the id if there is no such user."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    @property
    def is_nobody(self) -> bool:
        """Whether it is the user that programs of all kinds share."""
        return self.name == NOBODY

    def adopt(self, path: Path) -> None:
        """Give this user a file, or a folder with all in it, that was root's or nobody's; others' files stay theirs.

        No link is followed, and a file with a second name elsewhere stays as it is.
        """
        if path.is_dir() and not path.is_symlink():
            for _, folders, files, descriptor in os.fwalk(path, topdown=False):
                for name in (*folders, *files):
                    self._adopt_entry(name, descriptor)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._adopt_entry(path.name, descriptor)
        finally:
            os.close(descriptor)

    def _adopt_entry(self, name: str, folder: int) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        strange = status.st_uid != 0 and not ServerUser(status.st_uid, status.st_gid).is_nobody
        if not strange and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
            os.chown(name, *self, dir_fd=folder, follow_symlinks=False)

    def first_unreadable(self, paths: Sequence[Path]) -> Path | None:
        """The first of these files that this user cannot read."""
        check = 'n=0; for path; do n=$((n+1)); test -r "$path" || exit $n; done'
        position = self.run(["sh", "-c", check, "sh", *paths])
        return paths[position - 1] if position else None

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
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            os.close(descriptor)
            raise InvalidRequest(f"{path} is not a file of its own; remove it")
        os.fchown(descriptor, *self)
        os.fchmod(descriptor, 0o600)  # an earlier version may have made it for all to read
        return os.fdopen(descriptor, "ab")
