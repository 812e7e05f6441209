"""Series are copied, exported to one file, imported and removed.

A file may come from anybody. Nothing of it is written outside a temporary folder, and that folder becomes a series only
when all of it is there and has been checked; the series is marked as imported then.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from stafette.errors import InvalidRequest
from stafette.files import try_lock
from stafette.lab.experiment import experiment_file
from stafette.lab.experiment.experiment_file import Experiment
from stafette.lab.series import archive_entries, imported_records
from stafette.lab.series.series_folder import Series, own_behaviours
from stafette.runs import records
from stafette.runs.layout import EXPERIMENT_FILE, LOCK_FILE, SYSTEM

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_BYTES = 64 * 2**30
"""Of an unpacked series: more than a week of traces, and less than a file made to fill a disk may claim."""
RESERVE_BYTES = 2**30
"""Of the disk that an import leaves free: a database without room stops."""
CHUNK_BYTES = 1 << 20
POLL_SECONDS = 0.01

LEFT_OUT = (LOCK_FILE, SYSTEM)
"""Belongs to a series only while it is running: its lock and its database."""

_NUMBERED = re.compile(r"(.+)-\d{4,}")
LOOK_SECONDS = 1.0
"""How long others may look whether a series is running, which takes its lock for a moment."""


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
    for name in own_behaviours(_experiment(series)):
        copies[series.folder / archive_entries.check_path(name, f"the behaviour file {name}")] = file.parent / name
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


def _experiment(series: Series) -> Experiment:
    """The experiment of the file that is copied, whose behaviours are not looked into."""
    text = experiment_file.read_text(series.folder / EXPERIMENT_FILE)
    return experiment_file.parse_alone(text, profile=series.record.profile, name=series.record.experiment)


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
            deadline = time.monotonic() + LOOK_SECONDS
            while not try_lock(lock):
                if is_running(series) or time.monotonic() > deadline:
                    raise _is_being_run(series, action)
                time.sleep(POLL_SECONDS)
        yield


def _is_being_run(series: Series, action: str) -> InvalidRequest:
    return InvalidRequest(f"series {series.name} is running and can be {action} when it has ended; wait, or stop it")


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
    """The same zip file in pieces, while it is packed; refused while the series is running.

    It holds no lock, so that whoever reads slowly, or reads no more, keeps nobody from deleting or continuing the
    series. After either the pieces end with an error: before the zip file's directory, without which it is none.
    """
    pieces = _Pieces()
    with zipfile.ZipFile(pieces, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path, name in list(_files_to_pack(series)):
            if is_running(series):
                raise _is_being_run(series, "exported")
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
            try:
                return _unpack(archive, runs, packed_bytes=file.stat().st_size, most_bytes=most_bytes)
            except (InvalidRequest, RecursionError) as error:
                raise InvalidRequest(f"{file} {error}") from error
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError) as error:
        raise InvalidRequest(f"{file} is not a complete zip file: {error}") from error
    except OSError as error:
        raise InvalidRequest(f"cannot import {file}: {error.filename or runs}: {error.strerror}") from error


def _unpack(archive: zipfile.ZipFile, runs: Path, *, packed_bytes: int, most_bytes: int) -> Series:
    name, files = archive_entries.check(archive.infolist(), packed_bytes=packed_bytes, most_bytes=most_bytes)
    runs.mkdir(parents=True, exist_ok=True)
    check_room(runs, sum(entry.file_size for entry in files.values()))
    with tempfile.TemporaryDirectory(prefix=".import-", dir=runs) as temporary:
        folder = Path(temporary)
        _extract(archive, files, folder, packed_bytes=packed_bytes, most_bytes=most_bytes)
        try:
            series = Series(folder / name)
        except InvalidRequest as error:
            reason = str(error).partition(": ")[2] or str(error)
            raise InvalidRequest(f"holds no series of this Stafette: {reason}") from error
        imported_records.check(series)
        series.record.imported_at = records.now()
        return _move_into(series, runs)


def _extract(
    archive: zipfile.ZipFile,
    files: Mapping[PurePosixPath, zipfile.ZipInfo],
    folder: Path,
    *,
    packed_bytes: int,
    most_bytes: int,
) -> None:
    unpacked_bytes = 0
    for path, entry in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as content, target.open("xb") as file:
            while chunk := content.read(CHUNK_BYTES):
                unpacked_bytes += len(chunk)  # the sizes in the archive's directory may be wrong
                archive_entries.check_unpacked_size(unpacked_bytes, packed_bytes=packed_bytes, most_bytes=most_bytes)
                check_room(folder, len(chunk))
                file.write(chunk)


def check_room(folder: Path, needed: int) -> None:
    """Refuse to write so many bytes if that would leave the disk, which the database may be on too, nearly full."""
    free = shutil.disk_usage(folder).free
    if needed > free - RESERVE_BYTES:
        raise InvalidRequest(
            f"holds {needed:,} bytes, and the disk of {folder} has {free:,} left, of which {RESERVE_BYTES:,} stay free;"
            " make room, or name another folder with --runs"
        )


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
