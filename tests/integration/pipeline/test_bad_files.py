"""Files that cannot be read, or are gone: they are named and the rest is analysed, or one sentence says why."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stafette.errors import StafetteError
from stafette.pipeline import job
from stafette.pipeline.ingest import Reader
from stafette.pipeline.job import Analysis
from stafette.pipeline.sources import delimited, mapping, mlmq, native
from stafette.pipeline.sources.base import Source
from tests.support.spark_frames import below
from tests.support.synthetic_runs import make_run, requests

END = 1383684920569
MAPPING = mapping.parse('unit = "s"\nduration_unit = "ms"\n[columns]\nstart = "begin"\nduration = "took"\n')
COUNT = 50
GOOD, HURT = "made-0001/1", "made-0001/2"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs; the traces of the second are to be hurt."""
    for number, run in enumerate((GOOD, HURT), 1):
        make_run(tmp_path / f"{number}", requests(COUNT, run=run, brokers=1), samples=False)
    return tmp_path


def client_file(runs: Path) -> Path:
    [path] = (runs / "2" / "traces").glob("client-*.parquet")
    return path


def analysed(spark: SparkSession, folder: Path, read: Reader) -> Analysis:
    return job.analyze(spark, read, requests=f"{folder}/requests")


def attempted(spark: SparkSession, folder: Path, read: Reader) -> Analysis | StafetteError:
    try:
        return analysed(spark, folder, read)
    except StafetteError as error:
        return error


def native_reader(folder: Path, then: Callable[[], object] = lambda: None) -> Reader:
    """Reads runs; afterwards something happens to their files, before their requests are written."""

    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        source = native.read(spark, [folder], kept=kept)
        then()
        return source

    return read


def counts(analysis: Analysis) -> dict[str, tuple[int, int]]:
    return {row["run"]: (row["client_rows"], row["broker_rows"]) for row in analysis.tables["joins"].to_pylist()}


def rejected(analysis: Analysis, folder: Path) -> list[tuple[str, int, str, str]]:
    rows = analysis.tables["rejects"].to_pylist()
    return below([(row["file"], row["line"], row["text"], row["reason"]) for row in rows], folder)


def overwrite_column(path: Path, name: str) -> None:
    """Make what is stored of a column nonsense, so that only those who read it notice."""
    column = next(
        chunk
        for number in range(pq.read_metadata(path).num_columns)
        if (chunk := pq.read_metadata(path).row_group(0).column(number)).path_in_schema == name
    )
    start = column.dictionary_page_offset or column.data_page_offset
    whole = bytearray(path.read_bytes())
    whole[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(whole)


HURTS: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-50]),
    "cut-to-half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "of-another-kind": lambda path: path.write_bytes(b"begin,took\n1,2\n"),
    "with-a-corrupt-name": lambda path: overwrite_column(path, "operation"),
    "with-a-corrupt-time": lambda path: overwrite_column(path, "start_ns"),
}


def test_trace_files_that_are_hurt_are_named_and_the_rest_is_analysed(spark: SparkSession, tmp_path: Path) -> None:
    make_run(tmp_path / "good", requests(COUNT, run=GOOD), samples=False)
    for name, hurt in HURTS.items():
        make_run(tmp_path / name, requests(COUNT, run=f"made-0001/{name}", brokers=1), samples=False)
        hurt(next((tmp_path / name / "traces").glob("client-*.parquet")))

    first, second = (analysed(spark, tmp_path, native_reader(tmp_path)) for _ in range(2))

    for analysis in (first, second):
        assert counts(analysis) == {GOOD: (COUNT, COUNT)} | {f"made-0001/{name}": (0, COUNT) for name in HURTS}
        rejects = rejected(analysis, tmp_path)
        assert [file.partition("/")[0] for file, *_ in rejects] == sorted(HURTS)
        for file, line, text, reason in rejects:
            assert (Path(file).name.partition("-")[0], line, text) == ("client", 0, "")
            assert reason.startswith("cannot be read: ")
            assert "\n" not in reason
        assert analysis.facts["rejected"] == len(HURTS)


def test_a_trace_file_that_is_empty_is_named_and_the_rest_is_analysed(spark: SparkSession, runs: Path) -> None:
    client_file(runs).write_bytes(b"")

    analysis = analysed(spark, runs, native_reader(runs))

    assert counts(analysis) == {GOOD: (COUNT, COUNT), HURT: (0, COUNT)}
    [(file, line, *_)] = rejected(analysis, runs)
    assert (file, line) == (str(client_file(runs).relative_to(runs)), 0)


@pytest.mark.parametrize("gone", ["client file", "traces of a run", "a run"])
def test_what_vanishes_before_it_is_read_is_named_or_a_sentence_says_so(
    spark: SparkSession, runs: Path, gone: str
) -> None:
    path = client_file(runs)
    vanish: dict[str, Callable[[], object]] = {
        "client file": path.unlink,
        "traces of a run": lambda: shutil.rmtree(path.parent),
        "a run": lambda: shutil.rmtree(runs / "2"),
    }

    outcome = attempted(spark, runs, native_reader(runs, vanish[gone]))

    if isinstance(outcome, StafetteError):
        assert gone != "client file", "the rest can be analysed"
        assert "\n" not in str(outcome)
        assert str(path.parent) in str(outcome)
    else:
        assert counts(outcome)[GOOD] == (COUNT, COUNT)
        assert str(path.relative_to(runs)) in {file for file, *_ in rejected(outcome, runs)}
        assert counts(outcome).get(HURT, (0, 0))[0] == 0


def test_a_file_that_is_back_is_read_with_the_next_analysis(spark: SparkSession, runs: Path) -> None:
    path = client_file(runs)
    whole = path.read_bytes()
    assert counts(analysed(spark, runs, native_reader(runs, path.unlink)))[HURT] == (0, COUNT)
    path.write_bytes(whole)

    analysis = analysed(spark, runs, native_reader(runs))

    assert counts(analysis) == {GOOD: (COUNT, COUNT), HURT: (COUNT, COUNT)}
    assert rejected(analysis, runs) == []


def test_runs_of_which_no_file_can_be_read_are_said_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    make_run(tmp_path / "1", requests(COUNT, run=GOOD), samples=False)
    for path in (tmp_path / "1" / "traces").glob("*.parquet"):
        path.write_bytes(b"junk")

    outcome = attempted(spark, tmp_path, native_reader(tmp_path))

    if isinstance(outcome, StafetteError):
        assert "\n" not in str(outcome)
    else:
        assert outcome.tables["summary"].num_rows == 0
        assert {line for _, line, *_ in rejected(outcome, tmp_path)} == {0}


# Text


def text_reader(folder: Path, then: Callable[[], object] = lambda: None) -> Reader:
    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        source = delimited.read(spark, [folder], MAPPING, kept=kept)
        then()
        return source

    return read


def log_reader(folder: Path, then: Callable[[], object] = lambda: None) -> Reader:
    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        source = mlmq.read(spark, [folder], kept=kept)
        then()
        return source

    return read


TEXTS = {
    "csv": (text_reader, "begin,took\n1700000000,1\n1700000001,1\n"),
    "mlmq": (log_reader, f"4;{END};CSndReq#OK#LoginRequest:LoginResponse;\n" * 2),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_cannot_be_unpacked_is_named_and_the_rest_is_analysed(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    reader, text = TEXTS[kind]
    packed = gzip.compress(text.encode() * 1000)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "good.gz").write_bytes(gzip.compress(text.encode()))
    bad = {"cut.gz": packed[:30], "no-gzip.gz": b"no gzip", "truncated.gz": packed[:-20]}
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)

    first, second = (analysed(spark, tmp_path, reader(tmp_path)) for _ in range(2))

    for analysis in (first, second):
        assert counts(analysis) == {tmp_path.name: (4, 0)}
        reasons = {file: reason for file, _, _, reason in rejected(analysis, tmp_path)}
        assert reasons.keys() == bad.keys()
        assert all(reason.startswith("cannot be read: ") for reason in reasons.values())


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_vanishes_before_it_is_read_is_named_and_the_rest_is_analysed(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    reader, text = TEXTS[kind]
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(text)

    analysis = analysed(spark, tmp_path, reader(tmp_path, (tmp_path / "b.txt").unlink))

    assert counts(analysis) == {tmp_path.name: (2, 0)}
    assert [(file, line) for file, line, *_ in rejected(analysis, tmp_path)] == [("b.txt", 0)]


@pytest.mark.parametrize("kind", TEXTS)
def test_text_of_which_nothing_is_left_is_said_in_a_sentence(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    reader, text = TEXTS[kind]
    (tmp_path / "a.txt").write_text(text)

    with pytest.raises(StafetteError) as refused:
        analysed(spark, tmp_path, reader(tmp_path, (tmp_path / "a.txt").unlink))

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", TEXTS)
def test_text_without_a_good_line_is_said_in_a_sentence(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    reader, _ = TEXTS[kind]
    (tmp_path / "a.txt").write_text("begin,took\nno,good\n")

    with pytest.raises(StafetteError) as refused:
        analysed(spark, tmp_path, reader(tmp_path))

    assert "\n" not in str(refused.value)
