"""What root starts runs as an unprivileged user: the one who owns the data folder or its cluster, else `stafette` or
`postgres` (ADR 24).

A process gives up root's rights itself, when it has what only root could get (a port below 1024, the key of a
certificate) and before it listens; its children never have them. The data folder stays root's, and the user may pass
it; what is in it changes hands. Folders above stay as they are: where they bar the user, the process says so and stays
root.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import stafette
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.embedded.cluster import make_data_folder
from stafette.database.embedded.server_user import ServerUser
from stafette.errors import InvalidRequest
from stafette.files import PRIVATE, keep_private, make_private_folder, trusted_owners

FOLDERS = ("run", "runs", "experiments", "web")
"""What processes keep in the data folder, beside the cluster."""
LOGS = ("broker.log", "web.log")
SERVER = ("postgres", "postgres.new", "postgres.log", "postgres.lock", "postgres.alive", "postgres.password", "sockets")


class Identity(NamedTuple):
    """Whom root's processes become, and a message about it; for an ordinary user neither."""

    user: ServerUser | None = None
    message: str = ""


def prepare(data: Path) -> Identity:
    """Make the data folder, or mend what an earlier version left open in it; returns whom root's processes become."""
    keep_private()
    data = data.resolve()
    user = _service_user(data)
    with suppress(OSError):  # with a database elsewhere all works without it
        make_data_folder(data, user)
        _refuse_writable(data)
        _close(data, user)
    if user.uid == os.geteuid():
        return Identity()
    if barrier := _barrier(user, data):
        return _still_root(f"user {user.name} cannot get to {barrier}; use folders that all users can enter")
    if data.exists() and data.stat().st_uid == 0:
        for name in FOLDERS:
            (data / name).mkdir(mode=0o700, exist_ok=True)
        for name in (*FOLDERS, *LOGS):
            if (data / name).exists():
                user.adopt(data / name)
    return Identity(user, f"this runs as user {user.name}, not as root")


def drop(data: Path, *folders: Path) -> Identity:
    """Become the unprivileged user if this is root; `folders` are those, beside the data folder, that are written."""
    identity = prepare(data)
    if identity.user is None:
        return identity
    for folder in folders:
        if not _may_write(identity.user, folder):
            name = identity.user.name
            return _still_root(f"user {name} cannot write in {folder}; `chown -R {name} {folder}` lets it")
    become(identity.user)
    return identity


def make_runs_folder(runs: Path, data: Path) -> None:
    """Make the folder of the laboratory's series, for the user who will write in it."""
    keep_private()
    if os.geteuid() == 0 and not runs.exists():
        if runs.is_relative_to(data.resolve()):
            prepare(data)
        _may_write(_service_user(data), runs)


def drop_in(series: Path, data: Path) -> Identity:
    """The same for the laboratory, which writes into the folder of a series that root has just made or opened."""
    keep_private()
    if os.geteuid() != 0:
        return Identity()
    if series.is_relative_to(data.resolve()):
        identity = prepare(data)
    else:
        user = _service_user(data)
        identity = Identity(user, f"this runs as user {user.name}, not as root")
    if identity.user is None:
        return identity
    if barrier := _barrier(identity.user, series.parent):
        return _still_root(f"user {identity.user.name} cannot get to {barrier}; name another folder with --runs")
    identity.user.adopt(series)
    become(identity.user)
    return identity


def give_to_owner(folder: Path) -> None:
    """Give what root has made to whom the folder above belongs: the console could not read it otherwise."""
    owner = folder.parent.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        ServerUser(owner.st_uid, owner.st_gid).adopt(folder)


def _still_root(reason: str) -> Identity:
    return Identity(None, f"this runs as root, because {reason}")


def become(user: ServerUser) -> None:
    """Give up root's rights, in all threads and for good."""
    os.setgroups([])
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    try:
        home = pwd.getpwuid(user.uid).pw_dir
    except KeyError:
        home = "/"
    os.environ.update(HOME=home, USER=user.name, LOGNAME=user.name)
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "MAIL"):
        os.environ.pop(name, None)  # root's


def open_entries(data: Path) -> Iterator[Path]:
    """What Stafette keeps in a data folder and other users can read or write."""
    for name in (*FOLDERS, *LOGS, *SERVER):
        path = data / name
        try:
            status = path.lstat()
        except OSError:
            continue
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & PRIVATE:
            yield path


def _refuse_writable(data: Path) -> None:
    """Refuse root a data folder in which others could put their files in the place of ours."""
    status = data.stat()
    others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != 0 else 0)
    if os.geteuid() == 0 and status.st_uid == 0 and status.st_mode & others:
        raise InvalidRequest(f"other users may write in {data}; `chmod go-w {data}`, or use another data folder")


def _close(data: Path, user: ServerUser) -> None:
    """Close to others what an earlier version left open; only in a folder whose names nobody else can change."""
    status = data.stat()
    if status.st_uid not in trusted_owners():
        return
    for path in open_entries(data):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~PRIVATE)
    if _is_ours_alone(data) and (user.uid == status.st_uid or user.reaches(data.parent)):
        _give_way(data, user)


def _is_ours_alone(folder: Path) -> bool:
    """Whether this folder is our own user's, and has nothing in it but what a data folder has."""
    status = folder.stat()
    is_own = status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX
    return is_own and {path.name for path in folder.iterdir()} <= {*FOLDERS, *LOGS, *SERVER}


def _give_way(folder: Path, user: ServerUser) -> None:
    """Let this user, and no other, pass our folder."""
    if user.uid == os.geteuid():
        folder.chmod(0o700)
    else:
        os.chown(folder, -1, user.gid)
        folder.chmod(0o710)


def _service_user(data: Path) -> ServerUser:
    """Our own user or, for root, the unprivileged one."""
    user = ServerUser.of(data / "postgres")
    if os.geteuid() != 0 or not user.is_nobody:
        return user
    if EmbeddedPostgres(data).running:
        raise InvalidRequest(
            f"PostgreSQL in {data} runs as nobody, as whom other programs run, too; stop it with"
            f" `stafette db stop --data {data}` and start again"
        )
    return ServerUser.candidate()


def _barrier(user: ServerUser, folder: Path) -> Path | None:
    """What keeps this user from running our code or from a folder."""
    if (barrier := user.first_unreadable(_code())) is not None:
        return barrier
    return folder if folder.exists() and not user.reaches(folder) else None


def _may_write(user: ServerUser, folder: Path) -> bool:
    """Whether this user may write in a folder, which is made if it is missing."""
    if not folder.exists():
        make_private_folder(folder)
        os.chown(folder, *user)
    return user.run(["test", "-w", folder.resolve()]) == 0


def _code() -> list[Path]:
    """Python, our package and a library: what children load."""
    library = importlib.util.find_spec("asyncpg")
    origins = [library.origin] if library and library.origin else []
    return [Path(path) for path in (sys.executable, os.__file__, stafette.__file__, *origins)]
