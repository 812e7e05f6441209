"""Any delimited text, by a mapping."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import ROWS
from stafette.pipeline.sources import delimited, mapping
from stafette.runs.window import Window
from tests.support.spark_frames import added, below, rejects, rows, runs_python

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
FEWER = "it has more or fewer fields than the header"

MAPPING = """
separator = ";"
unit = "s"
duration_unit = "ms"
[columns]
start = "begin"
duration = "took"
operation = "what"
outcome = "code"
client = "who"
[phases]
database = "sql"
[outcomes]
"200" = "ok"
"""


def row(
    run: str, node: str, client: str, operation: str, outcome: str, start: int, took: int, database: int | None
) -> tuple[object, ...]:
    names = (run, "client", node, client, 0, operation, outcome)
    return (*names, start, start, start + took, None, None, None, database, None, None, None, 0, 0, None)


def test_columns_are_found_by_the_names_of_each_files_own_header(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'begin;took;what;code;sql;who\n1700000000.123456789;1.5;"a;b";200;0.25;me\n1700000001;2;get;500;;you\n'
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.csv").write_text("who;sql; begin ;took;what;code;more\nme;1;1700000002;0;get;200;x\n")
    (tmp_path / "c.csv").write_text("who;begin;took\nme;1700000002;0\n")

    source = delimited.read(spark, [tmp_path], mapping.parse(MAPPING))

    run = tmp_path.name
    assert rows(source, *ROWS.names) == [
        row(run, "a.csv", "me", "a;b", "ok", BEGIN + 123456789, 1_500_000, 250_000),
        row(run, "a.csv", "you", "get", "500", BEGIN + SECOND, 2_000_000, None),
        row(run, "sub/b.csv", "me", "get", "ok", BEGIN + 2 * SECOND, 0, 1_000_000),
    ]
    batch = added(source)
    assert below(batch.rejects, tmp_path) == [("c.csv", 0, "", "its first line has no column code, sql, what")]
    [whole] = batch.runs
    assert (whole.run, whole.clients, whole.brokers, whole.folder) == (run, {"clients": 2}, None, str(tmp_path))
    assert whole.load == whole.window == Window(BEGIN + 123456789, BEGIN + 2 * SECOND + 1)
    assert source.rows.schema.simpleString() == ROWS.simpleString()
    assert not runs_python(source.rows)
    assert not runs_python(source.rejects)


def test_the_load_begins_with_the_first_intended_start(spark: SparkSession, tmp_path: Path) -> None:
    lines = (f"{1_700_000_000_000 + at},{1_700_000_000_500 + at},1\n" for at in range(20))
    (tmp_path / "a.csv").write_text(f"planned,began,took\n{''.join(lines)}")
    how = mapping.parse('unit = "ms"\n[columns]\nintended = "planned"\nstart = "began"\nduration = "took"\n')

    [run] = added(delimited.read(spark, [tmp_path], how)).runs

    assert run.load == Window(BEGIN, BEGIN + 520 * SECOND // 1_000 + 1)


def test_bad_lines_are_rejected_with_their_number_and_the_rest_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    good = b"1700000000;1;get;200;1;me"
    lines = [
        b"begin;took;what;code;sql;who\r",
        good + b"\r",
        b"\r",
        b"1700000000;x;get;200;1;me",
        b"soon;1;get;200;1;me",
        b";1;get;200;1;me",
        b"1700000000;-1;get;200;1;me",
        b"1700000000;1;;200;1;me",
        b"1700000000;1;get;200;y;me",
        b"1700000000;1;get;200;-1;me",
        b"1700000000;1;get;200",
        b"1700000000;1;get;200;1;me;too",
        b"\xff\x00\xfe",
        good,
        b"99999999999999999999;1;get;200;1;me",
        b"1700000000;1;g",
    ]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))

    source = delimited.read(spark, [tmp_path], mapping.parse(MAPPING))

    assert [(line, reason) for _, line, _, reason in rejects(source, tmp_path)] == [
        (3, "the line is empty"),
        (4, "duration is not a number"),
        (5, "start is not a number"),
        (6, "it has no start"),
        (7, "duration is negative"),
        (8, "it has no operation"),
        (9, "database_ns is not a number"),
        (10, "database_ns is negative"),
        (11, FEWER),
        (12, FEWER),
        (13, FEWER),
        (15, "start is not a number"),
        (16, FEWER),
    ]
    assert source.rows.count() == 2


def test_dates_numbers_of_columns_and_constants(spark: SparkSession, tmp_path: Path) -> None:
    text = """
header = false
pattern = "dd.MM.yyyy HH:mm:ss.SSS"
zone = "Europe/Zurich"
files = "*.txt"
[columns]
end = 2
duration = 1
run = 4
tier = 3
[constants]
operation = "call"
outcome = "fine"
node = "here"
"""
    (tmp_path / "a.txt").write_text(
        "12,14.11.2023 23:13:20.500,broker,r1\n12,2023,broker,r1\n1,14.11.2023 23:13:20.500,tram,r2\n"
    )
    (tmp_path / "b.csv").write_text("not asked for")

    source = delimited.read(spark, [tmp_path], mapping.parse(text))

    end = BEGIN + SECOND // 2
    assert rows(source, "run", "tier", "node", "operation", "outcome", "start_ns", "end_ns") == [
        ("r1", "broker", "here", "call", "fine", end - 12_000_000, end)
    ]
    assert [(line, reason) for _, line, _, reason in rejects(source, tmp_path)] == [
        (2, "end is not a date"), (3, "there is no tier tram")
    ]  # fmt: skip


def test_iso_dates_with_start_and_end(spark: SparkSession, tmp_path: Path) -> None:
    how = mapping.parse('pattern = "iso"\n[columns]\nstart = "a"\nend = "b"\n')
    (tmp_path / "a.csv").write_text(
        "a,b\n2023-11-14T22:13:20.000001Z,2023-11-14T23:13:20.5+01:00\n2023-11-14T22:13:20Z,2023-11-14T22:13:19Z\n"
    )

    source = delimited.read(spark, [tmp_path], how)

    assert rows(source, "operation", "outcome", "start_ns", "end_ns") == [
        ("request", "ok", BEGIN + 1000, BEGIN + SECOND // 2)
    ]
    assert [reason for *_, reason in rejects(source, tmp_path)] == ["it ends before it starts"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('unit = "ms"\ncolour = 1\n[columns]\nstart = "a"\nend = "b"', "there is no key colour"),
        ('unit = "ms"\n[columns]\nstart = "a"\nend = "b"\nstop = "c"', "there is no key columns.stop"),
        ('unit = "h"\n[columns]\nstart = "a"\nend = "b"', "unit: Input should be 's', 'ms', 'us' or 'ns'"),
        ('unit = "ms"\n[columns]\nstart = "a"', "columns must have two of start, end and duration"),
        ('[columns]\nstart = "a"\nend = "b"', "give a unit of the times, or a pattern when they are dates"),
        ('unit = "ms"\n[columns]\nstart = 1\nend = "b"', "the column start is given by a name"),
        ('unit = "ms"\nheader = false\n[columns]\nstart = 0\nend = 2', "the column start is given by a number, from 1"),
        ("unit = ", "this is not TOML: "),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)

    with pytest.raises(InvalidRequest) as refused:
        mapping.read(path)

    assert str(refused.value).startswith(f"{path}: {sentence}")
