"""Series are copied, exported to one file, imported and removed.

A file may come from anybody. Nothing of it is written outside a temporary folder, and that folder becomes a series only
when all of it is there and has been checked.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from stafette.errors import InvalidRequest
from stafette.files import try_lock
from stafette.lab.experiment.experiment_file import Experiment
from stafette.lab.series.series_folder import Series, own_behaviours
from stafette.runs import records
from stafette.runs.layout import EXPERIMENT_FILE, LOCK_FILE, SERIES_FILE

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_BYTES = 64 * 2**30
"""Of an unpacked series: more than a week of traces, and less than a file made to fill a disk may claim."""
MOST_FILES = 200_000
"""In an exported series; a run has a few dozen."""
LONGEST_NAME = 100
CHUNK_BYTES = 1 << 20

LEFT_OUT = (LOCK_FILE, "system")
"""Belongs to a series only while it is running: its lock and its database."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NUMBERED = re.compile(r"(.+)-\d{4,}")
_FILE_TYPES = (0, stat.S_IFREG, stat.S_IFDIR)  # 0: packed on a system without file types
_ENCRYPTED = 1


def is_running(series: Series) -> bool:
    """Whether a runner executes it now."""
    try:
        with (series.folder / LOCK_FILE).open() as lock:
            return not try_lock(lock, shared=True)
    except OSError:  # there is no lock file
        return False


def state(series: Series) -> records.State:
    """Its state; a series without a runner whose record says running has been interrupted."""
    recorded = series.record.state
    return "interrupted" if recorded == "running" and not is_running(series) else recorded


# Copies of the experiment


def clone(series: Series, file: Path) -> list[Path]:
    """Copy the experiment to a file, and its own behaviours beside it; returns the files that were written."""
    copies = {series.folder / EXPERIMENT_FILE: file}
    for behaviour_file in own_behaviours(Experiment.model_validate(series.record.settings)):
        copies[series.folder / _inside(behaviour_file, f"the behaviour file {behaviour_file}")] = (
            file.parent / behaviour_file
        )
    copies = {
        source: target for source, target in copies.items() if target == file or not _have_equal_bytes(source, target)
    }
    for target in copies.values():
        if target.exists():
            raise InvalidRequest(f"{target} exists already, and is not overwritten; name another file")
    try:
        for source, target in copies.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as content, target.open("xb") as copy:
                shutil.copyfileobj(content, copy)
    except OSError as error:
        raise InvalidRequest(f"cannot copy to {file}: {error.filename}: {error.strerror}") from error
    return list(copies.values())


def _have_equal_bytes(source: Path, target: Path) -> bool:
    return target.is_file() and target.read_bytes() == source.read_bytes()


# Removal


def remove(series: Series) -> None:
    """Delete a series; refused while it is running."""
    with _without_runner(series, "removed"):
        try:
            trash = Path(tempfile.mkdtemp(prefix=".removed-", dir=series.folder.parent))
            series.folder.rename(trash / series.name)  # so that no half of it remains when we are interrupted
            shutil.rmtree(trash)
        except OSError as error:
            raise InvalidRequest(f"cannot remove {series.folder}: {error.strerror}") from error


@contextlib.contextmanager
def _without_runner(series: Series, action: str) -> Iterator[None]:
    """Hold the lock of a series, so that no runner can start; `action` is for the message."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # where we may not write, no runner may either
            lock = stack.enter_context((series.folder / LOCK_FILE).open("w"))
            if not try_lock(lock):
                raise InvalidRequest(
                    f"series {series.name} is running and can be {action} when it has ended; wait, or stop it"
                )
        yield


# Export and import


def pack(series: Series, file: Path) -> None:
    """Pack a series into a zip file, which must not exist yet."""
    with _without_runner(series, "exported"):
        try:
            with file.open("xb") as target:
                try:
                    _write(series, target)
                except BaseException:
                    file.unlink()
                    raise
        except FileExistsError as error:
            raise InvalidRequest(f"{file} exists already, and is not overwritten; name another file") from error
        except OSError as error:
            raise InvalidRequest(f"cannot write {file}: {error.strerror}") from error


def _write(series: Series, target: IO[bytes]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path, name in _files_to_pack(series):
            archive.write(path, name)


def _files_to_pack(series: Series) -> Iterator[tuple[Path, str]]:
    """The files of a series that go into an archive, and their names there."""
    for path in sorted(series.folder.rglob("*")):
        relative = path.relative_to(series.folder)
        if relative.parts[0] in LEFT_OUT or path.is_symlink() or not path.is_file():
            continue
        yield path, PurePosixPath(series.name, relative.as_posix()).as_posix()


def stream(series: Series) -> Iterator[bytes]:
    """The same zip file in pieces, while it is packed; refused while the series is running."""
    with _without_runner(series, "exported"):
        pieces = _Pieces()
        with zipfile.ZipFile(pieces, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for path, name in _files_to_pack(series):
                entry = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
                entry.compress_type = zipfile.ZIP_DEFLATED
                with path.open("rb") as source, archive.open(entry, "w") as target:
                    while chunk := source.read(CHUNK_BYTES):
                        target.write(chunk)
                        yield pieces.take()
        yield pieces.take()


class _Pieces(io.RawIOBase):
    """A file for writing, whose content is taken away piece by piece."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        before = len(self._buffer)
        self._buffer += data
        return len(self._buffer) - before

    def take(self) -> bytes:
        """The bytes written since the last call."""
        piece, self._buffer = bytes(self._buffer), bytearray()
        return piece


def unpack(file: Path, runs: Path, *, most_bytes: int = MOST_BYTES) -> Series:
    """Import a packed series under its name or, if there is one already, under the next number."""
    try:
        with zipfile.ZipFile(file) as archive:
            name, entries = _check_entries(archive, file, most_bytes)
            runs.mkdir(parents=True, exist_ok=True)
            needed, free = sum(entry.file_size for entry in entries), shutil.disk_usage(runs).free
            if needed > free:
                raise InvalidRequest(
                    f"{file} holds {needed:,} bytes, and the disk of {runs} has {free:,} left; name another with --runs"
                )
            with tempfile.TemporaryDirectory(prefix=".import-", dir=runs) as temporary:
                _extract(archive, entries, Path(temporary), most_bytes)
                return _move_into(_read_series(Path(temporary) / name, file), runs)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError) as error:
        raise InvalidRequest(f"{file} is not a complete zip file: {error}") from error
    except OSError as error:
        raise InvalidRequest(f"cannot import {file}: {error.filename or runs}: {error.strerror}") from error


def _check_entries(archive: zipfile.ZipFile, file: Path, most_bytes: int) -> tuple[str, list[zipfile.ZipInfo]]:
    """Check all entries of an archive; returns the name of the series and its files."""
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise InvalidRequest(f"{file} holds {len(entries):,} files; a series has at most {MOST_FILES:,}")
    if (total := sum(entry.file_size for entry in entries)) > most_bytes:
        raise InvalidRequest(f"{file} would unpack to {total:,} bytes; a series has at most {most_bytes:,}")
    paths = [_inside(entry.filename, f"{file}: {entry.filename!r}") for entry in entries]
    if len(set(paths)) < len(paths):
        raise InvalidRequest(f"{file} contains a file twice; it was not made by `stafette lab export`")
    for entry in entries:
        if stat.S_IFMT(entry.external_attr >> 16) not in _FILE_TYPES:
            raise InvalidRequest(f"{file}: {entry.filename!r} is a link or device; a series has only files")
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidRequest(f"{file} is encrypted or packed in an uncommon way; pack it as a plain zip file")
    tops = {path.parts[0] for path in paths}
    name = tops.pop() if len(tops) == 1 else ""
    if PurePosixPath(name, SERIES_FILE) not in paths or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise InvalidRequest(f"{file} holds no series; make one with `stafette lab export`")
    return name, [entry for entry in entries if not entry.is_dir()]


def _inside(name: str, description: str) -> PurePosixPath:
    """The path of a name that stays inside its folder."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name:
        raise InvalidRequest(f"{description} would be outside the folder of the series; do not trust its source")
    return path


def _extract(archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], folder: Path, most_bytes: int) -> None:
    remaining = most_bytes
    for entry in entries:
        target = folder / entry.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as content, target.open("xb") as file:
            while chunk := content.read(CHUNK_BYTES):
                remaining -= len(chunk)
                if remaining < 0:  # the sizes in the archive's directory may be wrong
                    raise InvalidRequest(f"{archive.filename} unpacks to more than {most_bytes:,} bytes")
                file.write(chunk)


def _read_series(folder: Path, file: Path) -> Series:
    """The series in a folder; raises InvalidRequest if it is none."""
    try:
        series = Series(folder)
    except InvalidRequest as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise InvalidRequest(f"{file} holds no series of this Stafette: {reason}") from error
    record = series.record
    if record.format != records.FORMAT:
        raise InvalidRequest(f"{file} has format {record.format}, and this Stafette reads {records.FORMAT}; update it")
    for run in record.runs:
        if run.folder and len(_inside(run.folder, f"{file}: the run {run.folder!r}").parts) != 1:
            raise InvalidRequest(f"{file}: the run {run.folder!r} is not a folder of the series")
    return series


def _move_into(series: Series, runs: Path) -> Series:
    for name in _free_names(series.name, runs):
        series.record.name = name
        series.save()
        with contextlib.suppress(FileExistsError):
            (runs / name).mkdir()  # reserves the name; `rename` may replace an empty folder
            return Series(series.folder.rename(runs / name))
    raise AssertionError("numbers have no end")


def _free_names(name: str, runs: Path) -> Iterator[str]:
    """The name, then its stem with the numbers after the highest in use."""
    yield name
    numbered = _NUMBERED.fullmatch(name)
    stem = numbered[1] if numbered else name
    suffixes = [path.name.removeprefix(f"{stem}-") for path in runs.glob(f"{stem}-*")]
    number = max((int(text) for text in suffixes if text.isdecimal()), default=0)
    while True:
        number += 1
        yield f"{stem}-{number:04d}"
