"""Series as things to keep: copied, packed into one file for somebody else, unpacked, removed.

What comes in a file may come from anybody. Nothing of it is written outside of a folder of its own, and that folder
takes its place among the series when all of it is there and it turned out to be one.
"""

from __future__ import annotations

import contextlib
import fcntl
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
from stafette.lab.experiment.experiment_file import Experiment
from stafette.lab.series.series_folder import Series, own_behaviours
from stafette.runs import records
from stafette.runs.layout import EXPERIMENT_FILE, LOCK_FILE, SERIES_FILE

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_BYTES = 64 * 2**30
"""Of a series when unpacked: more than a week of traces, and less than a file made to fill a disk can ask for."""
MOST_FILES = 200_000
"""In a packed series; a run has a few dozen."""
LONGEST_NAME = 100
CHUNK_BYTES = 1 << 20

LEFT_OUT = (LOCK_FILE, "system")
"""What belongs to a series only while it is being run: its lock and its database."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NUMBERED = re.compile(r"(.+)-\d{4,}")
_KINDS = (0, stat.S_IFREG, stat.S_IFDIR)  # 0: packed where files have no such thing
_ENCRYPTED = 1


def being_run(series: Series) -> bool:
    """Whether a runner is at work on it."""
    try:
        with (series.folder / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no lock, so nobody holds it
        return False
    return False


def state(series: Series) -> records.State:
    """What has become of it; a series that says it is running though nobody runs it has been interrupted."""
    said = series.record.state
    return "interrupted" if said == "running" and not being_run(series) else said


# Copies of the experiment


def clone(series: Series, file: Path) -> list[Path]:
    """Write the experiment to a file, and the behaviours it brings along beside it; all that was written."""
    copies = {series.folder / EXPERIMENT_FILE: file}
    for own in own_behaviours(Experiment.model_validate(series.record.settings)):
        copies[series.folder / _inside(own, f"the behaviour file {own}")] = file.parent / own
    wanted = {source: target for source, target in copies.items() if target == file or not _alike(source, target)}
    for target in wanted.values():
        if target.exists():
            raise InvalidRequest(f"{target} exists already, and is not overwritten; name another file")
    try:
        for source, target in wanted.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as content, target.open("xb") as copy:
                shutil.copyfileobj(content, copy)
    except OSError as error:
        raise InvalidRequest(f"cannot copy to {file}: {error.filename}: {error.strerror}") from error
    return list(wanted.values())


def _alike(source: Path, target: Path) -> bool:
    return target.is_file() and target.read_bytes() == source.read_bytes()


# Removal


def remove(series: Series) -> None:
    """Remove a series for good; not while it is being run."""
    with _at_rest(series, "removed"):
        try:
            away = Path(tempfile.mkdtemp(prefix=".removed-", dir=series.folder.parent))
            series.folder.rename(away / series.name)  # so that it is gone whole, also when we are interrupted
            shutil.rmtree(away)
        except OSError as error:
            raise InvalidRequest(f"cannot remove {series.folder}: {error.strerror}") from error


@contextlib.contextmanager
def _at_rest(series: Series, done: str) -> Iterator[None]:
    """Keep runners off a series."""
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context((series.folder / LOCK_FILE).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidRequest(
                f"series {series.name} is being run, and can be {done} when it has ended; wait, or break it off"
            ) from error
        except OSError:  # where we may not write, no runner of ours may, either
            pass
        yield


# One file


def pack(series: Series, file: Path) -> None:
    """Pack a series into a zip file, which must not exist yet."""
    with _at_rest(series, "exported"):
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
        for path, name in _packed(series):
            archive.write(path, name)


def _packed(series: Series) -> Iterator[tuple[Path, str]]:
    """The files that go into an archive, and their names there."""
    for path in sorted(series.folder.rglob("*")):
        place = path.relative_to(series.folder)
        if place.parts[0] in LEFT_OUT or path.is_symlink() or not path.is_file():
            continue
        yield path, PurePosixPath(series.name, place.as_posix()).as_posix()


def streamed(series: Series) -> Iterator[bytes]:
    """The same zip file piece by piece, for somebody who reads while it is made; refused while the series is run."""
    with _at_rest(series, "exported"):
        pieces = _Pieces()
        with zipfile.ZipFile(pieces, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for path, name in _packed(series):
                entry = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
                entry.compress_type = zipfile.ZIP_DEFLATED
                with path.open("rb") as source, archive.open(entry, "w") as target:
                    while chunk := source.read(CHUNK_BYTES):
                        target.write(chunk)
                        yield pieces.taken()
        yield pieces.taken()


class _Pieces(io.RawIOBase):
    """A file that is written at one end and taken away at the other."""

    def __init__(self) -> None:
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        before = len(self._held)
        self._held += data
        return len(self._held) - before

    def taken(self) -> bytes:
        """What was written since the last time."""
        taken, self._held = bytes(self._held), bytearray()
        return taken


def unpack(file: Path, runs: Path, *, most_bytes: int = MOST_BYTES) -> Series:
    """Take a packed series in among the others, under its name or, if that is taken, under the next number."""
    try:
        with zipfile.ZipFile(file) as archive:
            name, entries = _looked_through(archive, file, most_bytes)
            runs.mkdir(parents=True, exist_ok=True)
            needed, free = sum(entry.file_size for entry in entries), shutil.disk_usage(runs).free
            if needed > free:
                raise InvalidRequest(
                    f"{file} holds {needed:,} bytes, and the disk of {runs} has {free:,} left; name another with --runs"
                )
            with tempfile.TemporaryDirectory(prefix=".import-", dir=runs) as workplace:
                _extract(archive, entries, Path(workplace), most_bytes)
                return _put_in_place(_checked(Path(workplace) / name, file), runs)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError) as error:
        raise InvalidRequest(f"{file} is not a whole zip file: {error}") from error
    except OSError as error:
        raise InvalidRequest(f"cannot import {file}: {error.filename or runs}: {error.strerror}") from error


def _looked_through(archive: zipfile.ZipFile, file: Path, most_bytes: int) -> tuple[str, list[zipfile.ZipInfo]]:
    """The name of the series in it and its files, none of which is other than it should be."""
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise InvalidRequest(f"{file} holds {len(entries):,} files; a series has at most {MOST_FILES:,}")
    if (total := sum(entry.file_size for entry in entries)) > most_bytes:
        raise InvalidRequest(f"{file} would unpack to {total:,} bytes; a series has at most {most_bytes:,}")
    places = [_inside(entry.filename, f"{file}: {entry.filename!r}") for entry in entries]
    if len(set(places)) < len(places):
        raise InvalidRequest(f"{file} holds a file twice; it was not made by `stafette lab export`")
    for entry in entries:
        if stat.S_IFMT(entry.external_attr >> 16) not in _KINDS:
            raise InvalidRequest(f"{file}: {entry.filename!r} is a link or device; a series has only files")
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidRequest(f"{file} is encrypted or packed in an uncommon way; pack it as a plain zip file")
    tops = {place.parts[0] for place in places}
    name = tops.pop() if len(tops) == 1 else ""
    if PurePosixPath(name, SERIES_FILE) not in places or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise InvalidRequest(f"{file} holds no series; make one with `stafette lab export`")
    return name, [entry for entry in entries if not entry.is_dir()]


def _inside(name: str, called: str) -> PurePosixPath:
    """A path that stays inside the folder it is put into."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name:
        raise InvalidRequest(f"{called} would lie outside of the series' folder; do not trust where this came from")
    return path


def _extract(archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], folder: Path, most_bytes: int) -> None:
    left = most_bytes
    for entry in entries:
        target = folder / entry.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as content, target.open("xb") as file:
            while chunk := content.read(CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:  # whatever the directory of the archive says
                    raise InvalidRequest(f"{archive.filename} unpacks to more than {most_bytes:,} bytes")
                file.write(chunk)


def _checked(folder: Path, file: Path) -> Series:
    """The series in a folder, if we can read it."""
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


def _put_in_place(series: Series, runs: Path) -> Series:
    for name in _free_names(series.name, runs):
        series.record.name = name
        series.save()
        with contextlib.suppress(FileExistsError):
            (runs / name).mkdir()  # ours now, whoever else takes names; a folder that is empty may be renamed onto
            return Series(series.folder.rename(runs / name))
    raise AssertionError("numbers have no end")


def _free_names(name: str, runs: Path) -> Iterator[str]:
    """The name, then its stem with the numbers after the last one there is."""
    yield name
    numbered = _NUMBERED.fullmatch(name)
    stem = numbered[1] if numbered else name
    taken = [path.name.removeprefix(f"{stem}-") for path in runs.glob(f"{stem}-*")]
    number = max((int(text) for text in taken if text.isdecimal()), default=0)
    while True:
        number += 1
        yield f"{stem}-{number:04d}"
