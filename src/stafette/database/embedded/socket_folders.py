"""Where Unix sockets are whose paths must be short: in a folder of their user's alone, below one that is open to all.

Its name can be guessed, so anybody can be there first. Then we take one with a name that cannot, and write it down. ::

    /tmp/stafette-UID/                     of all data folders of a user
    /tmp/stafette-UID-RANDOM/              instead, if somebody else made that
    DATA/sockets                           says so

The record is only believed where it names such a folder: it is a file of the user's, and root gives the folder to them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from pathlib import Path

from stafette.database.embedded.server_user import ServerUser
from stafette.errors import InvalidRequest

SOCKETS = Path("/tmp")  # noqa: S108  short, open to every user, and the same for every caller whatever its TMPDIR
RECORD = "sockets"

log = logging.getLogger(__name__)


def socket_root(data: Path, user: ServerUser) -> Path:
    """The user's folder for the sockets of this data folder."""
    usual = SOCKETS / f"stafette-{user.uid}"
    try:
        recorded = Path((data / RECORD).read_text().strip())
    except (FileNotFoundError, UnicodeDecodeError):
        return usual
    is_ours = recorded.parent == SOCKETS and re.fullmatch(rf"stafette-{user.uid}-\w+", recorded.name)
    return recorded if is_ours else usual


def make_socket_root(data: Path, user: ServerUser) -> Path:
    """Make it, or another if somebody else was there first."""
    folder = socket_root(data, user)
    try:
        user.make_private(folder)
    except InvalidRequest:
        other = Path(tempfile.mkdtemp(prefix=f"stafette-{user.uid}-", dir=SOCKETS))
        os.chown(other, *user)
        user.write(data / RECORD, f"{other}\n")
        log.warning("%s is not ours alone; the sockets are in %s", folder, other)
        return other
    return folder


def digest(data: Path) -> str:
    """A short name for a data folder."""
    return hashlib.sha256(os.fsencode(data)).hexdigest()[:8]
