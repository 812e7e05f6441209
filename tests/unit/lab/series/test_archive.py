"""Packed series: what goes in comes out, and what somebody else made up does not get in."""

from __future__ import annotations

import fcntl
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stafette.errors import InvalidRequest
from stafette.lab.experiment import experiment_file
from stafette.lab.series import archive, series_folder
from stafette.lab.series.series_folder import Series

EXPERIMENT = """
run.repetitions = 1

[clients.own]
behaviour = "own/behaviour.py:Own"
count = 1
"""
BEHAVIOUR = """
from stafette.lab.behaviours import Behaviour

class Own(Behaviour):
    async def step(self, client):
        pass
"""
TRACE = bytes(range(256)) * 100


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def made(tmp_path: Path, runs: Path) -> Series:
    """A series with a behaviour of its own, one run, and what is there while it is being run."""
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/behaviour.py").write_text(BEHAVIOUR)
    made = series_folder.begin(runs, experiment_file.read(file), file=file, profile=None, new=True)
    run = made.folder_for(0)
    made.record.runs[0].folder = run.name
    made.record.runs[0].state = "done"
    made.save()
    (run / "traces").mkdir()
    (run / "traces/client.parquet").write_bytes(TRACE)
    (made.folder / "system/database").mkdir(parents=True)
    (made.folder / "system/database/large").write_bytes(TRACE)
    (made.folder / "series.lock").touch()
    return made


@pytest.fixture
def packed(made: Series, tmp_path: Path) -> Path:
    file = tmp_path / "small.zip"
    archive.pack(made, file)
    return file


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_packed_is_unpacked_under_the_next_number(made: Series, packed: Path, runs: Path) -> None:
    with zipfile.ZipFile(packed) as file:
        assert not [name for name in file.namelist() if "system" in name or "lock" in name]
    found = [archive.unpack(packed, runs) for _ in range(2)]
    assert [one.name for one in found] == ["small-0002", "small-0003"]
    before, after = contents(made.folder), contents(found[0].folder)
    assert after.pop("series.json") != before.pop("series.json")  # it says the new name
    assert found[0].record.name == "small-0002"
    assert after == {name: content for name, content in before.items() if not name.startswith(("system", "series"))}
    assert sorted(path.name for path in runs.iterdir()) == ["small-0001", "small-0002", "small-0003"]


def test_it_keeps_its_name_where_that_is_free(packed: Path, tmp_path: Path) -> None:
    assert archive.unpack(packed, tmp_path / "elsewhere").name == "small-0001"


def test_a_file_is_never_overwritten_by_an_export(made: Series, packed: Path) -> None:
    before = packed.read_bytes()
    with pytest.raises(InvalidRequest, match="exists already, and is not overwritten"):
        archive.pack(made, packed)
    assert packed.read_bytes() == before


def test_an_export_that_fails_leaves_no_half_file(made: Series, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot write .*no-folder"):
        archive.pack(made, tmp_path / "no-folder/small.zip")


def with_entry(
    name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644, packing: int = zipfile.ZIP_STORED
) -> Callable[[Path], None]:
    def add(file: Path) -> None:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        with zipfile.ZipFile(file, "a") as packed, warnings.catch_warnings(action="ignore"):  # of names that are there
            packed.writestr(entry, content, packing)

    return add


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    """Change the content of one file of the archive."""

    def change(file: Path) -> None:
        with zipfile.ZipFile(file) as packed:
            entries = {entry: packed.read(entry) for entry in packed.namelist()}
        assert old in entries[name]
        entries[name] = entries[name].replace(old, new)
        with zipfile.ZipFile(file, "w") as packed:
            for entry, content in entries.items():
                packed.writestr(entry, content)

    return change


def something_else(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("notes/today.txt", "nothing")


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (with_entry("small-0001/../../escaped"), "outside the folder of the series"),
        (with_entry("../escaped"), "outside the folder of the series"),
        (with_entry("/tmp/escaped"), "outside the folder of the series"),
        (with_entry("small-0001\\..\\escaped"), "outside the folder of the series"),
        (with_entry("small-0001/link", b"/etc/passwd", stat.S_IFLNK | 0o777), "is a link or device"),
        (with_entry("small-0001/pipe", b"", stat.S_IFIFO | 0o644), "is a link or device"),
        (with_entry("small-0001/experiment.toml"), "contains a file twice"),
        (with_entry("small-0001/new", packing=zipfile.ZIP_BZIP2), "packed in an uncommon way"),
        (with_entry("another-0001/series.json", b"{}"), "holds no series"),
        (with_entry("small-0001/series.json/inside"), "cannot import"),
        (replaced("small-0001/series.json", b'"format": 1', b'"format": 2'), "has format 2, and this Stafette reads 1"),
        (replaced("small-0001/series.json", b'"runs": [', b'"rums": ['), "holds no series of this Stafette"),
        (replaced("small-0001/series.json", b'"001-single-r1"', b'"../../elsewhere"'), "outside the folder of"),
        (replaced("small-0001/series.json", b'"001-single-r1"', b'"deeper/down"'), "is not a folder of the series"),
        (something_else, "holds no series; make one with `stafette lab export`"),
        (damaged, "is not a complete zip file"),
        (cut, "is not a complete zip file"),
    ],
    ids=[
        "way out", "way out at the top", "absolute", "backslashes", "link", "pipe", "twice", "uncommon", "two series",
        "file as a folder", "newer", "other record", "run elsewhere", "run deeper", "something else", "damaged", "cut",
    ],
)  # fmt: skip
def test_what_is_not_a_series_does_not_get_in(
    packed: Path, tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    spoil(packed)
    there = contents(tmp_path)
    with pytest.raises(InvalidRequest, match=says) as caught:
        archive.unpack(packed, tmp_path / "new")
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == there
    assert not list((tmp_path / "new").glob("*"))


def test_a_file_that_would_fill_the_disk_does_not_get_in(packed: Path, runs: Path) -> None:
    with_entry("small-0001/zeros", bytes(10_000_000))(packed)
    with pytest.raises(InvalidRequest, match=r"would unpack to 10,.* bytes; a series has at most 5,000,000"):
        archive.unpack(packed, runs, most_bytes=5_000_000)
    assert [path.name for path in runs.iterdir()] == ["small-0001"]


def test_a_clone_brings_its_behaviours_and_never_overwrites(made: Series, tmp_path: Path) -> None:
    there = tmp_path / "there"
    copy = there / "copy.toml"
    assert archive.clone(made, copy) == [copy, there / "own/behaviour.py"]
    assert copy.read_text() == EXPERIMENT
    assert experiment_file.read(copy).clients["own"].behaviour == "own/behaviour.py:Own"
    with pytest.raises(InvalidRequest, match=r"copy\.toml exists already"):
        archive.clone(made, copy)

    assert archive.clone(made, there / "second.toml") == [there / "second.toml"]  # the behaviour is there, and the same
    (there / "own/behaviour.py").write_text("mine = True")
    with pytest.raises(InvalidRequest, match=r"behaviour\.py exists already"):
        archive.clone(made, there / "third.toml")
    assert not (there / "third.toml").exists()
    assert (there / "own/behaviour.py").read_text() == "mine = True"


def test_a_behaviour_that_only_a_level_names_comes_along(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "levels.toml"
    factor = 'factors.who = { set = "clients.own.behaviour", levels = ["echo", "mine.py:Own"] }'
    file.write_text(EXPERIMENT.replace("own/behaviour.py:Own", "echo") + f'[design]\nkind = "sweep"\n{factor}')
    (tmp_path / "mine.py").write_text(BEHAVIOUR)
    made = series_folder.begin(runs, experiment_file.read(file), file=file, profile=None, new=True)
    assert (made.folder / "mine.py").read_text() == BEHAVIOUR
    copy = tmp_path / "there/copy.toml"
    assert archive.clone(made, copy) == [copy, tmp_path / "there/mine.py"]


def test_a_clone_takes_nothing_from_outside_of_the_series(made: Series, tmp_path: Path) -> None:
    (made.folder / "experiment.toml").write_text(EXPERIMENT.replace("own/behaviour.py", "../../secret.py"))
    with pytest.raises(InvalidRequest, match="outside the folder of the series"):
        archive.clone(made, tmp_path / "copy.toml")


def test_a_series_is_left_alone_while_it_is_being_run(made: Series, runs: Path, tmp_path: Path) -> None:
    assert archive.state(made) == "interrupted"  # it says that it is running, and nobody runs it
    with (made.folder / "series.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert archive.state(made) == "running"
        with pytest.raises(InvalidRequest, match="small-0001 is running and can be removed when it has ended"):
            archive.remove(made)
        with pytest.raises(InvalidRequest, match="small-0001 is running and can be exported when it has ended"):
            archive.pack(made, tmp_path / "small.zip")
    assert not (tmp_path / "small.zip").exists()
    archive.remove(made)
    assert not list(runs.iterdir())
