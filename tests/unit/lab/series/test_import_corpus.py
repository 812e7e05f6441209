"""Archives by strangers: each is refused with one sentence and leaves nothing, or is data that runs nothing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from stafette.errors import InvalidRequest
from stafette.lab.experiment import experiment_file
from stafette.lab.experiment.experiment_file import fingerprint
from stafette.lab.jobs.job_child import JobChild
from stafette.lab.series import archive, continuation, run_views, series_folder
from stafette.lab.series.series_folder import Series
from tests.support import hostile_archives
from tests.support.hostile_archives import EVIL, EXPERIMENT, NAME, REFUSED, pack


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (folder := tmp_path / "runs").mkdir()
    return folder


def imported(content: bytes, runs: Path) -> Series:
    file = runs.parent / "archive.zip"
    file.write_bytes(content)
    return archive.unpack(file, runs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_stafette_packed_is_refused_with_a_sentence(name: str, runs: Path) -> None:
    case = REFUSED[name]
    before = set(runs.parent.rglob("*"))
    with pytest.raises(InvalidRequest) as caught:
        imported(case.archive(), runs)
    assert case.says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(runs) not in str(caught.value)
    assert set(runs.parent.rglob("*")) - before == {runs.parent / "archive.zip"}


def test_the_harmless_one_gets_in_and_says_that_it_was_imported(runs: Path) -> None:
    series = imported(pack(run_record=hostile_archives.run(summary=hostile_archives.summary())), runs)
    assert series.record.imported_at
    [view] = run_views.views(series)
    assert view.problem == "it failed"


def test_an_archive_can_neither_take_the_mark_off_nor_date_it(runs: Path) -> None:
    record = hostile_archives.series(imported_at="2001-01-01T00:00:00+00:00")
    for content in (pack(record=record), pack(record=hostile_archives.series(imported_at=""))):
        series = imported(content, runs)
        assert series.record.imported_at > "2026"
        series.reopen()
        assert Series(series.folder).record.imported_at > "2026"
    archive.pack(series, packed := runs.parent / "again.zip")
    assert archive.unpack(packed, runs).record.imported_at > series.record.imported_at


def test_results_are_not_taken_from_an_archive_but_made_here(runs: Path) -> None:
    series = imported(pack((f"{NAME}/analysis/report.html", b"all is well"), (f"{NAME}/requests/x", b"")), runs)
    assert {path.name for path in series.folder.iterdir()} == {"experiment.toml", "series.json", "runs"}


def test_the_disk_keeps_its_reserve(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = archive.RESERVE_BYTES + 5000
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: type("Usage", (), {"free": free}))
    log = (f"{NAME}/runs/001-single-r1/logs/x.log", bytes(range(256)) * 40)
    with pytest.raises(InvalidRequest, match=r"stay free; make room"):
        imported(pack(log), runs)
    assert not list(runs.iterdir())


def test_a_name_that_is_taken_is_numbered_and_the_other_series_is_not_touched(runs: Path) -> None:
    first = imported(pack(), runs)
    before = (first.folder / "series.json").read_bytes()
    assert imported(pack(), runs).name == "harmless-0002"
    assert (first.folder / "series.json").read_bytes() == before


# What is run


def own_experiment(folder: Path) -> tuple[Path, str]:
    """An experiment with a behaviour of its own, and the fingerprint that its series have."""
    (folder / "own.py").write_text("from stafette.lab.behaviours.mix import Mix as Own\n")
    file = folder / "harmless.toml"
    file.write_text(EXPERIMENT.replace('"mix"', '"own.py:Own"', 1))
    begun = series_folder.begin(folder / "other", experiment_file.read(file), file=file, profile=None, new=True)
    return file, begun.record.fingerprint


def test_a_foreign_series_with_our_fingerprint_is_not_continued(runs: Path, tmp_path: Path) -> None:
    file, known_fingerprint = own_experiment(tmp_path)
    changed = EVIL.format(mark=str(tmp_path / "ran")).encode()
    record = hostile_archives.series(fingerprint=known_fingerprint)
    foreign = imported(pack((f"{NAME}/own.py", changed), record=record, text=file.read_text()), runs)
    begun = series_folder.begin(runs, experiment_file.read(file), file=file, profile=None, new=False)
    assert begun.name != foreign.name
    assert (begun.folder / "own.py").read_text() == (tmp_path / "own.py").read_text()
    assert not (tmp_path / "ran").exists()


def test_a_series_whose_copy_of_a_behaviour_was_changed_is_not_continued(runs: Path, tmp_path: Path) -> None:
    """As an earlier version may have imported it, which set no mark."""
    file, _ = own_experiment(tmp_path)
    begun = series_folder.begin(runs, experiment_file.read(file), file=file, profile=None, new=False)
    assert series_folder.begin(runs, experiment_file.read(file), file=file, profile=None, new=False).name == begun.name
    (begun.folder / "own.py").write_text(EVIL.format(mark=str(tmp_path / "ran")))
    again = series_folder.begin(runs, experiment_file.read(file), file=file, profile=None, new=False)
    assert again.name != begun.name


@pytest.mark.parametrize("where", ["group", "level", "profile"])
def test_a_series_goes_on_by_its_experiment_file_alone_and_runs_no_file(where: str, runs: Path, tmp_path: Path) -> None:
    text, profile = EXPERIMENT, None
    if where == "group":
        text = text.replace('"mix"', '"evil.py:Evil"', 1)
    elif where == "level":
        text += '[design]\nkind = "sweep"\n[design.factors.a]\nset = "clients.mix.behaviour"\n'
        text += 'levels = ["mix", "evil.py:Evil"]\n'
    else:
        text, profile = text + '[profiles.p]\nclients.mix.behaviour = "evil.py:Evil"\n', "p"
    evil = (f"{NAME}/evil.py", EVIL.format(mark=str(tmp_path / "ran")).encode())
    series = imported(pack(evil, text=text, record=hostile_archives.series(profile=profile)), runs)
    with pytest.raises(InvalidRequest, match=r"evil\.py:Evil is a file that belongs to a series") as caught:
        continuation.experiment_of(series)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_a_series_with_built_in_behaviours_goes_on(runs: Path) -> None:
    experiment = continuation.experiment_of(imported(pack(), runs))
    assert experiment.clients["mix"].behaviour == "mix"
    assert fingerprint(experiment)


def test_a_plan_that_is_not_that_of_the_experiment_does_not_go_on(runs: Path) -> None:
    record = hostile_archives.series(runs=[{"label": "brokers=9", "levels": {}, "repetition": 1}])
    with pytest.raises(InvalidRequest, match="plans the run 'brokers=9', which its experiment does not have"):
        continuation.experiment_of(imported(pack(record=record), runs))


def test_a_clone_copies_what_the_file_names_and_imports_nothing(runs: Path, tmp_path: Path) -> None:
    text = EXPERIMENT.replace('"mix"', '"evil.py:Evil"', 1)
    evil = (f"{NAME}/evil.py", EVIL.format(mark=str(tmp_path / "ran")).encode())
    series = imported(pack(evil, (f"{NAME}/other.py", b""), text=text), runs)
    copies = archive.clone(series, tmp_path / "clone/copy.toml")
    assert [path.name for path in copies] == ["copy.toml", "evil.py"]
    assert not (tmp_path / "ran").exists()


async def test_processes_in_the_folder_of_runs_import_nothing_from_it(runs: Path, tmp_path: Path) -> None:
    """An archive may call its series as it likes, and have files of behaviours: together that is a package."""
    mark = tmp_path / "ran"
    spoiled = f"open({str(mark)!r}, 'w').close()\nraise ImportError('not the one you want')\n".encode()
    for name in ("json", "asyncio", "msgspec", "stafette"):
        imported(pack((f"{NAME}/__init__.py", spoiled), name=name), runs)
    child = await JobChild.start("stafette.lab.jobs.job_process", runs)
    await child.close()
    assert not mark.exists()
    assert sys.flags.safe_path is False  # else this would prove nothing
