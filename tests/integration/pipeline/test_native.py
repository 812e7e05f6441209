"""Run folders as the laboratory leaves them, whole and with everything that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InternalError, InvalidRequest
from stafette.pipeline.schema import REJECTS, ROWS, check
from stafette.pipeline.sources import native
from stafette.pipeline.sources.base import Source
from stafette.runs.records import State
from stafette.runs.window import Window
from tests.support import synthetic_runs
from tests.support.spark_frames import analyzed_runs, below, rejects, runs_python
from tests.support.synthetic_runs import BEGIN, make_run, requests

RUN, OTHER = "made-0001/001-single-r1", "made-0001/002-single-r2"


def as_list(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in table.to_pylist())


def collected(source: Source) -> list[str]:
    return sorted(json.dumps(row.asDict(), sort_keys=True) for row in source.rows.collect())


def client_file(run: Path) -> Path:
    return next((run / "traces").glob("client-*.parquet"))


def test_all_runs_below_a_folder_are_read_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    runs = tmp_path / "Läufe [1] + {a}" / "made-0001" / "runs"
    first, second = requests(60, never_sent=0.1, lost=0.1), requests(40, seed=2, run=OTHER)
    make_run(runs / "001-size=1,x=2-r1", first, file_rows=25)
    make_run(runs / "002-size=1,x=2-r2", second, repetition=2)
    (runs / "001-size=1,x=2-r1" / "traces" / "client-load-1-9-00009.tmp").write_bytes(b"not yet whole")

    source = native.read(spark, [runs.parent.parent, runs / "001-size=1,x=2-r1"])

    assert collected(source) == sorted(as_list(first) + as_list(second))
    assert source.rejects.collect() == []
    assert [(run.run, run.repetition) for run in source.runs] == [(RUN, 1), (OTHER, 2)]
    assert source.rows.schema.simpleString() == ROWS.simpleString()
    assert source.rejects.schema.simpleString() == REJECTS.simpleString()
    assert set(source.names) == {
        tuple(row[name] for name in ("run", "tier", "operation", "outcome"))
        for row in (*first.to_pylist(), *second.to_pylist())
    }
    assert not runs_python(source.rows)
    assert not runs_python(source.rejects)


def test_a_run_tells_what_its_record_says(spark: SparkSession, tmp_path: Path) -> None:
    rows = requests(500)
    make_run(
        tmp_path / "r", rows, label="size=200", levels={"size": 200}, repetition=3, valid=False, warm_up=0.01,
        cool_down=0.02, clients=7, brokers=3, think_time_s=0.25, design="2k",
    )  # fmt: skip

    (run,) = native.read(spark, [tmp_path]).runs

    end = max(rows["end_ns"].to_pylist())
    assert (run.run, run.experiment, run.label, run.levels, run.repetition) == (
        RUN,
        "made",
        "size=200",
        {"size": 200},
        3,
    )
    assert (run.design, run.state, run.valid, run.sentences) == ("2k", "done", False, ("a check does not hold",))
    assert (run.clients, run.think_time_s, run.brokers) == ({"alice": 7}, 0.25, 3)
    assert (run.load, run.window) == (
        Window(BEGIN, end),
        Window(BEGIN + 10 * synthetic_runs.MILLISECOND, end - 20 * synthetic_runs.MILLISECOND),
    )
    assert run.settings["system"]["connections"] == 4
    assert run.folder == str(tmp_path / "r")


def test_samples_bear_their_run(spark: SparkSession, tmp_path: Path) -> None:
    make_run(tmp_path / "a=1", requests(20_000, think_time_s=0.001))
    make_run(tmp_path / "b", requests(10, run=OTHER))

    samples = native.read(spark, [tmp_path]).samples

    assert samples is not None
    queues = sorted(map(tuple, samples.queues.where(F.col("messages") < 2).collect()))
    assert queues == [
        (RUN, BEGIN, "q-1", 0), (RUN, BEGIN + synthetic_runs.SECOND, "q-1", 1), (OTHER, BEGIN, "q-1", 0)
    ]  # fmt: skip
    assert samples.processes.where(F.col("run") == OTHER).select("process").distinct().count() == 4
    assert [frame.columns[:2] for frame in (samples.database, samples.machines)] == [["run", "at_ns"]] * 2


BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"end_ns": 3}, "it ends before it starts"),
    ({"intended_ns": 0}, "it takes more than 31 days"),
    ({"tier": "proxy"}, "there is no such tier"),
    ({"request": -1}, "request is negative"),
    ({"intended_ns": -1}, "it was to start before the epoch"),
    ({"intended_ns": 2 * BEGIN}, "it starts before it was to"),
    ({"queue_ns": -5}, "queue_ns is negative"),
    ({"bytes": -1}, "bytes are negative"),
    ({"messages": -1}, "messages are negative"),
    ({"batch": 0}, "its batch is not positive"),
    ({"operation": None}, "it has no operation"),
    ({"start_ns": None}, "it has no start_ns"),
]


def test_rows_that_cannot_be_are_rejected_with_their_place_and_the_rest_is_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = requests(50)
    for number, (values, _) in enumerate(BAD_VALUES):
        rows = synthetic_runs.changed(rows, 2 * number, **values)
    run = tmp_path / "r + [1] ü%20"
    folder = run / "traces"
    make_run(run, requests(50), run=RUN)
    for old in folder.iterdir():
        old.unlink()
    pq.write_table(rows, folder / "client-1-00001.parquet", row_group_size=7)
    pq.write_table(synthetic_runs.changed(requests(3), 4, run="else"), folder / "client-1-00002.parquet")
    make_run(tmp_path / "good", requests(5, run=OTHER))

    source = native.read(spark, [tmp_path])

    found = rejects(source, folder)
    assert [(file, line, reason) for file, line, _, reason in found] == [
        *(("client-1-00001.parquet", 2 * number + 1, reason) for number, (_, reason) in enumerate(BAD_VALUES)),
        ("client-1-00002.parquet", 5, "it is of the run else"),
    ]
    assert '"end_ns":3' in found[0][2]
    assert all(len(text) <= 200 for _, _, text, _ in found)
    assert source.rows.count() == (100 - len(BAD_VALUES)) + (6 - 1) + 10
    assert not runs_python(source.rows)
    assert not runs_python(source.rejects)


def test_a_bad_file_among_good_ones_is_named_and_the_rest_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        make_run(tmp_path / f"r{number}", requests(10, run=f"made-0001/{number}"))
    cut, junk, strange = (client_file(tmp_path / f"r{number}") for number in range(3))
    cut.write_bytes(cut.read_bytes()[:-50])
    junk.write_bytes(b"PAR1 is what it begins with")
    pq.write_table(pa.table({"run": ["made-0001/2"], "end_ns": ["soon"]}), strange)
    (tmp_path / "r3" / "samples" / "queues.parquet").write_bytes(b"junk")
    (tmp_path / "r4").mkdir()
    (tmp_path / "r4" / "run.json").write_text("{")

    tables = analyzed_runs(spark, tmp_path).tables

    listed = below([(row["file"], row["line"], row["text"], row["reason"]) for row in tables["rejects"].to_pylist()],
                   tmp_path)  # fmt: skip
    expected = [cut, junk, strange, tmp_path / "r3" / "samples" / "queues.parquet"]
    assert [file for file, *_ in listed] == [*(str(path.relative_to(tmp_path)) for path in expected), "r4/run.json"]
    assert {line for _, line, *_ in listed} == {0}
    assert all(reason.startswith("cannot be read: ") for *_, reason in listed[:4])
    assert listed[4][3].startswith("is not a record of a run: ")
    joins = {row["run"]: (row["client_rows"], row["broker_rows"]) for row in tables["joins"].to_pylist()}
    assert joins == {f"made-0001/{number}": (10 if number == 3 else 0, 10) for number in range(4)}


def test_a_run_that_is_not_done_is_listed_and_its_rows_are_left_out_unless_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    make_run(tmp_path / "a", requests(10))
    make_run(tmp_path / "b", requests(10, run=OTHER), repetition=2, state="failed", valid=None)

    source, all_of_it = native.read(spark, [tmp_path]), native.read(spark, [tmp_path], unfinished=True)

    assert [(run.state, run.why, run.valid) for run in source.runs] == [
        ("done", None, True), ("failed", "it was made so", None)
    ]  # fmt: skip
    assert (source.rows.count(), all_of_it.rows.count()) == (20, 40)


def test_runs_without_a_trace_have_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    make_run(tmp_path, requests(0), state="interrupted", samples=False)

    source = native.read(spark, [tmp_path], unfinished=True)

    assert (source.rows.count(), source.rejects.count(), len(source.runs)) == (0, 0, 1)
    assert source.rows.columns == ROWS.names


def test_what_cannot_be_read_at_all_is_said_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"there is no run\.json in .*; give folders of runs$"):
        native.read(spark, [tmp_path])
    with pytest.raises(InvalidRequest, match=r"^cannot read .*nowhere: Path does not exist"):
        native.read(spark, [tmp_path / "nowhere"])
    for text, why in (
        ("", "it is empty|truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"format": 1}', "missing required field `id`"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(InvalidRequest, match=rf"run\.json is not a record of a run: .*({why})"):
            native.read(spark, [tmp_path])
    (tmp_path / "run.json").write_text('{"format": 2}')
    with pytest.raises(InvalidRequest, match=r"run\.json is of format 2, this Stafette reads format 1"):
        native.read(spark, [tmp_path])


def test_two_copies_of_a_run_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        make_run(tmp_path / name, requests(1))

    with pytest.raises(InvalidRequest, match=f"the run {RUN} is in {tmp_path}/a and in {tmp_path}/b; give only one"):
        native.read(spark, [tmp_path])


def test_a_step_ends_in_the_columns_that_were_agreed(spark: SparkSession) -> None:
    frame = spark.range(1).select(
        F.lit("why").alias("reason"), F.lit(7).alias("line"), F.lit("x").alias("text"), F.lit("f").alias("file"), "id"
    )

    assert check(frame, REJECTS).collect() == [("f", 7, "x", "why")]
    assert check(frame, REJECTS).schema["line"].dataType.simpleString() == "bigint"
    with pytest.raises(InternalError, match="the table has no column file, reason; it has line, text, id"):
        check(frame.drop("file", "reason"), REJECTS)


def test_an_attempt_that_was_made_again_is_not_told_of(spark: SparkSession, tmp_path: Path) -> None:
    made: dict[str, State] = {"001-single-r1": "failed", "001-single-r1-again2": "done", "002-single-r2": "failed"}
    for folder, state in made.items():
        name = f"made-0001/{folder}"
        rows = requests(20, run=name)
        repetition = int(folder.partition("-r")[2][0])
        make_run(tmp_path / folder, rows, run=name, label="single", repetition=repetition, state=state)
    runs = native.read(spark, [tmp_path]).runs
    assert {(run.run, run.state) for run in runs} == {
        ("made-0001/001-single-r1-again2", "done"), ("made-0001/002-single-r2", "failed"),
    }  # fmt: skip
