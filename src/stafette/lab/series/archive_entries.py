"""What may be in an archive of a series, by its directory alone: nothing has been unpacked yet.

The sizes that a directory gives are its maker's. They refuse an archive early; what is unpacked is counted again.
"""

from __future__ import annotations

import stat
import unicodedata
import zipfile
from collections.abc import Sequence
from pathlib import PurePosixPath

from stafette.errors import InvalidRequest
from stafette.lab.experiment import toml_limits
from stafette.lab.series.series_folder import SERIES_NAME
from stafette.runs.layout import ANALYSIS, EXPERIMENT_FILE, REQUESTS, RUN_FILE, RUNS, SERIES_FILE, SYSTEM

MOST_FILES = 100_000
"""In an archive; a run has a dozen."""
MOST_RATIO = 200
"""Of unpacked to packed bytes; traces and logs reach 20, a file of zeros 1,000."""
SMALL_BYTES = 10 * 2**20
"""Which any archive may unpack to."""
MOST_RECORD_BYTES = 16 * 2**20
"""Of `series.json` or one `run.json`: a day's figures for each second have three."""
MOST_RECORDS_BYTES = 256 * 2**20
"""Of all records together: the list of series reads them."""
LONGEST_PATH = 600
DEEPEST_PATH = 8

DERIVED = (REQUESTS, ANALYSIS)
"""Is made from the runs, and made again here when it is wanted: nobody has to believe what an archive says it was."""

_FILE_TYPES = (0, stat.S_IFREG, stat.S_IFDIR)  # 0: packed on a system without file types
_ENCRYPTED = 1


def check(
    entries: Sequence[zipfile.ZipInfo], *, packed_bytes: int, most_bytes: int
) -> tuple[str, dict[PurePosixPath, zipfile.ZipInfo]]:
    """Check all entries of an archive; returns the name of the series, and the files to unpack, by path."""
    if len(entries) > MOST_FILES:
        raise InvalidRequest(f"holds {len(entries):,} files; a series has at most {MOST_FILES:,}")
    unpacked_bytes = sum(entry.file_size for entry in entries)
    check_unpacked_size(unpacked_bytes, packed_bytes=packed_bytes, most_bytes=most_bytes)
    paths = {}
    for entry in entries:
        path = paths[entry.filename] = check_path(entry.filename, f"has {entry.filename[:100]!r}, which")
        _check_kind(entry, path)
    _check_unique(entries, paths)
    tops = {path.parts[0] for path in paths.values()}
    name = tops.pop() if len(tops) == 1 else ""
    if PurePosixPath(name, SERIES_FILE) not in paths.values() or not SERIES_NAME.fullmatch(name):
        raise InvalidRequest("holds no series; make one with `stafette lab export`")
    files = {paths[entry.filename]: entry for entry in entries if not entry.is_dir()}
    for path in files:
        _check_belongs(path)
    _check_records(files)
    return name, {path: entry for path, entry in files.items() if path.parts[1] not in DERIVED}


def check_unpacked_size(unpacked_bytes: int, *, packed_bytes: int, most_bytes: int) -> None:
    """Refuse what would unpack to too much, in all or for its size."""
    if unpacked_bytes > most_bytes:
        raise InvalidRequest(f"would unpack to {unpacked_bytes:,} bytes; a series has at most {most_bytes:,}")
    if unpacked_bytes > max(SMALL_BYTES, MOST_RATIO * packed_bytes):
        raise InvalidRequest(
            f"would unpack to {unpacked_bytes:,} bytes, more than {MOST_RATIO} times its size; no series packs so well"
        )


def check_path(name: str, description: str) -> PurePosixPath:
    """The path of a name that stays inside its folder, and that every file system can have."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name:
        raise InvalidRequest(f"{description} would be outside the folder of the series; do not trust its source")
    longest = max(len(part.encode(errors="replace")) for part in path.parts)
    if not name.isprintable() or longest > 255 or len(name) > LONGEST_PATH or len(path.parts) > DEEPEST_PATH:
        raise InvalidRequest(
            f"{description} is no name of a file in a series; it was not made by `stafette lab export`"
        )
    return path


def _check_kind(entry: zipfile.ZipInfo, path: PurePosixPath) -> None:
    if stat.S_IFMT(entry.external_attr >> 16) not in _FILE_TYPES:
        raise InvalidRequest(f"has {str(path)!r}, which is a link or device; a series has only files")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidRequest("is encrypted or packed in an uncommon way; pack it as a plain zip file")


def _check_unique(entries: Sequence[zipfile.ZipInfo], paths: dict[str, PurePosixPath]) -> None:
    """Refuse two names of one file, also for file systems that do not tell them apart."""
    names: dict[str, PurePosixPath] = {}
    for entry in entries:
        path = paths[entry.filename]
        folded = unicodedata.normalize("NFC", str(path)).casefold()
        if folded in names:
            again = "" if names[folded] == path else f", as {str(path)!r} too"
            raise InvalidRequest(
                f"contains a file twice: {str(names[folded])!r}{again}; it was not made by `stafette lab export`"
            )
        names[folded] = path


def _check_belongs(path: PurePosixPath) -> None:
    """Refuse what no series has; above all what a runner would take for its own."""
    top = path.parts[1]
    is_of_behaviour = path.suffix == ".py" and top != SYSTEM
    if top not in (SERIES_FILE, EXPERIMENT_FILE, RUNS, *DERIVED) and not is_of_behaviour:
        raise InvalidRequest(f"has {str(path)!r}, which no series has; make it with `stafette lab export`")


def _check_records(files: dict[PurePosixPath, zipfile.ZipInfo]) -> None:
    total = 0
    for path, entry in files.items():
        limit = None
        if path.parts[1:] == (EXPERIMENT_FILE,):
            limit = toml_limits.MOST_BYTES
        elif path.parts[1:] == (SERIES_FILE,) or path.name == RUN_FILE:
            limit = MOST_RECORD_BYTES
            total += entry.file_size
        if limit is not None and entry.file_size > limit:
            raise InvalidRequest(f"has {str(path)!r} of {entry.file_size:,} bytes; it may have {limit:,}")
    if total > MOST_RECORDS_BYTES:
        raise InvalidRequest(f"has records of {total:,} bytes; they may have {MOST_RECORDS_BYTES:,}")
