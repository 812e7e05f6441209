"""Requests that are kept: what did not change is not read again, and what is out of date does not count."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stafette.pipeline import store
from stafette.pipeline.ingest import Reader, Requests, ingest
from stafette.pipeline.sources import delimited, mapping, mlmq, native
from stafette.pipeline.sources.base import Source
from tests.support.spark_frames import analyzed_runs
from tests.support.synthetic_runs import make_run, requests, write_traces

END = 1383684920569
MAPPING = mapping.parse('unit = "s"\nduration_unit = "ms"\n[columns]\nstart = "begin"\nduration = "took"\n')


def run_name(number: int) -> str:
    return f"made-0001/{number}"


def add_run(folder: Path, number: int, *, count: int = 20, seed: int = 1) -> None:
    make_run(folder / f"{number}", requests(count, seed=seed, run=run_name(number)))


def of_runs(folder: Path) -> Reader:
    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        return native.read(spark, [folder], kept=kept)

    return read


def of_logs(folder: Path) -> Reader:
    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        return mlmq.read(spark, [folder], kept=kept)

    return read


def of_text(folder: Path, how: mapping.Mapping = MAPPING) -> Reader:
    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        return delimited.read(spark, [folder], how, kept=kept)

    return read


def kept(spark: SparkSession, read: Reader, folder: Path) -> Requests:
    return ingest(spark, read, f"{folder}/requests")


def content(asked: Requests) -> list[dict[str, Any]]:
    return sorted(asked.frame.toArrow().to_pylist(), key=repr)


def by_run(asked: Requests) -> dict[str, int]:
    counts = asked.frame.groupBy("run_code").count().collect()
    return {asked.names.runs[row["run_code"]]: row["count"] for row in counts}


def additions(folder: Path) -> set[str]:
    return {path.name for path in (folder / "requests" / "data").iterdir()}


def test_runs_that_did_not_change_are_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2):
        add_run(tmp_path, number)

    first, second = (kept(spark, of_runs(tmp_path), tmp_path) for _ in range(2))

    assert (sorted(first.source.fresh), list(second.source.fresh)) == ([run_name(1), run_name(2)], [])
    assert second.source.rows.inputFiles() == []
    assert content(first) == content(second)
    assert (len(content(second)), len(additions(tmp_path))) == (40, 1)
    assert second.names == first.names
    assert sorted(second.groups.collect()) == sorted(first.groups.collect())


def test_a_run_that_is_added_is_the_only_one_that_is_read(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2):
        add_run(tmp_path, number)
    kept(spark, of_runs(tmp_path), tmp_path)
    add_run(tmp_path, 3, count=30)

    asked = kept(spark, of_runs(tmp_path), tmp_path)

    assert list(asked.source.fresh) == [run_name(3)]
    assert {Path(file).parent.parent.name for file in asked.source.rows.inputFiles()} == {"3"}
    assert by_run(asked) == {run_name(1): 20, run_name(2): 20, run_name(3): 30}
    assert len(additions(tmp_path)) == 2


def test_a_run_whose_traces_changed_is_read_again_and_only_its_new_requests_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in (1, 2):
        add_run(tmp_path, number)
    before = kept(spark, of_runs(tmp_path), tmp_path)
    old = content(before)
    write_traces(tmp_path / "2" / "traces", requests(25, seed=7, run=run_name(2)))

    asked = kept(spark, of_runs(tmp_path), tmp_path)

    assert list(asked.source.fresh) == [run_name(2)]
    assert by_run(asked) == {run_name(1): 20, run_name(2): 25}
    first_run = next(code for code, run in asked.names.runs.items() if run == run_name(1))
    assert [row for row in content(asked) if row["run_code"] == first_run] == [
        row for row in old if row["run_code"] == first_run
    ]
    again = kept(spark, of_runs(tmp_path), tmp_path)
    assert (list(again.source.fresh), content(again)) == ([], content(asked))


def test_of_two_additions_of_a_run_the_newer_counts(spark: SparkSession, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    root = f"{tmp_path}/requests"
    sources = [native.read(spark, [tmp_path])]
    write_traces(tmp_path / "1" / "traces", requests(25, seed=7, run=run_name(1)))
    sources.append(native.read(spark, [tmp_path]))
    old, new = (dict(store.add(spark, root, source)) for source in (sources[0], sources[1]))

    newest = store.stored_runs(spark, root)

    assert newest == new
    assert old[run_name(1)].added != new[run_name(1)].added
    assert store.requests_of(spark, root, newest).count() == 25


def test_what_was_not_added_to_the_end_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    whole = content(kept(spark, of_runs(tmp_path), tmp_path))
    [addition] = additions(tmp_path)
    for table in ("data", "names", "rejects"):
        if (tmp_path / "requests" / table / addition).is_dir():
            shutil.copytree(
                tmp_path / "requests" / table / addition, tmp_path / "requests" / table / f"{addition[:-2]}00"
            )

    assert len(additions(tmp_path)) == 2
    assert content(kept(spark, of_runs(tmp_path), tmp_path)) == whole


PARTITIONS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"


def test_partitions_follow_the_bytes_unless_the_user_has_set_them(spark: SparkSession) -> None:
    def partitions(size: int) -> str | None:
        with store.own_partitions(spark):
            store.set_partitions(spark, size, store.JOIN_BYTES)
            return spark.conf.get(PARTITIONS, None)

    fewest = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    assert [partitions(size) for size in (0, 1_000 * store.JOIN_BYTES, 2**50)] == [str(fewest), "1000", "10000"]
    assert spark.conf.get(PARTITIONS, None) is None
    store.set_partitions(spark, 2**40, store.JOIN_BYTES)
    assert spark.conf.get(PARTITIONS, None) is None, "outside of the block it is the user's"
    spark.conf.set(PARTITIONS, "7")
    try:
        assert partitions(2**40) == spark.conf.get(PARTITIONS) == "7"
    finally:
        spark.conf.unset(PARTITIONS)


def test_deleting_the_requests_is_safe(spark: SparkSession, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    before = content(kept(spark, of_runs(tmp_path), tmp_path))
    shutil.rmtree(tmp_path / "requests")

    asked = kept(spark, of_runs(tmp_path), tmp_path)

    assert list(asked.source.fresh) == [run_name(1)]
    assert content(asked) == before


def test_a_run_is_read_when_it_is_done(spark: SparkSession, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    rows = requests(20, run=run_name(2))
    make_run(tmp_path / "2", rows, repetition=2, state="running", valid=None)
    assert by_run(kept(spark, of_runs(tmp_path), tmp_path)) == {run_name(1): 20}
    make_run(tmp_path / "2", rows, repetition=2)

    asked = kept(spark, of_runs(tmp_path), tmp_path)

    assert list(asked.source.fresh) == [run_name(2)]
    assert by_run(asked) == {run_name(1): 20, run_name(2): 20}


def test_requests_of_several_folders_are_kept_in_one_place(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2):
        add_run(tmp_path / f"series-{number}", number)
    for number in (1, 2):
        asked = kept(spark, of_runs(tmp_path / f"series-{number}"), tmp_path)
        assert by_run(asked) == {run_name(number): 20}

    both = kept(spark, of_runs(tmp_path), tmp_path)

    assert list(both.source.fresh) == []
    assert by_run(both) == {run_name(1): 20, run_name(2): 20}


def test_an_analysis_of_what_is_kept_says_the_same_as_the_first(spark: SparkSession, tmp_path: Path) -> None:
    add_run(tmp_path, 1, count=2_000)
    trace = next((tmp_path / "1" / "traces").glob("broker-*.parquet"))
    (trace.parent / "client-bad.parquet").write_bytes(b"junk")

    first, second = (analyzed_runs(spark, tmp_path) for _ in range(2))

    assert first.tables["rejects"].num_rows == 1, "the bad file is named, and so it is the second time"
    for name, table in first.tables.items():
        assert _sorted(table) == _sorted(second.tables[name]), name


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two logs of mlmq, one with a line that is rejected."""
    for name in "ab":
        (tmp_path / f"{name}.log").write_text(f"4;{END};BRcvReq;C[9]\n" * 3)
    (tmp_path / "b.log").write_text(f"4;{END};BRcvReq;C[9]\njunk\n")
    return tmp_path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file of two lines, of which one is rejected."""
    (tmp_path / "a.csv").write_text("begin,took\n1700000000,1\nsoon,1\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["logs", "text"])
def test_a_source_of_text_is_read_again_only_when_a_file_changed(
    spark: SparkSession, kind: str, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(kind)
    read, name, line, count = {
        "logs": (of_logs(folder), "a.log", f"5;{END};BSndResp;\n", 4),
        "text": (of_text(folder), "a.csv", "1700000009,2\n", 1),
    }[kind]

    first, second = (kept(spark, read, folder) for _ in range(2))

    assert (list(first.source.fresh), list(second.source.fresh)) == ([""], [])
    assert content(first) == content(second)
    assert len(content(second)) == count
    assert second.rejects.collect() == first.rejects.collect() != []
    assert second.source.bytes == first.source.bytes == {"": sum(path.stat().st_size for path in folder.glob("?.*"))}
    assert second.runs == first.runs
    with (folder / name).open("a") as file:
        file.write(line)
    third = kept(spark, read, folder)
    assert (list(third.source.fresh), len(content(third))) == ([""], count + 1)
    assert third.runs != first.runs or kind == "logs"
    assert third.rejects.collect() == first.rejects.collect()


def test_another_mapping_reads_the_same_files_again(spark: SparkSession, text: Path) -> None:
    kept(spark, of_text(text), text)
    other = mapping.parse('unit = "s"\nduration_unit = "us"\n[columns]\nstart = "begin"\nduration = "took"\n')

    asked = kept(spark, of_text(text, other), text)

    assert list(asked.source.fresh) == [""]
    assert [row["end_ns"] - row["start_ns"] for row in content(asked)] == [1_000]


def test_requests_are_kept_where_the_runs_are_or_beside_the_results(tmp_path: Path) -> None:
    assert store.default_root(str(tmp_path), "/results") == f"{tmp_path}/requests"
    assert store.default_root("hdfs://head/runs/", "/results") == "hdfs://head/runs/requests"
    assert store.default_root(str(tmp_path / "gone"), "/results") == "/results/requests"
