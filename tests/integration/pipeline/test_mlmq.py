"""Performance logs of mlmq, in both formats, with all that logs of real machines have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import REJECTS, ROWS
from stafette.pipeline.sources import mlmq
from stafette.runs.window import Window
from tests.support.mlmq_logs import HEADER
from tests.support.spark_frames import added, below, rejects, rows, runs_python

END = 1383684920569
MILLISECOND = 1_000_000
THREE_FIELDS = "a line has three or four fields with semicolons between them"
NO_TIME = "the time is neither epoch milliseconds nor yyyyMMddHHmmss"


@pytest.fixture(params=["134217728", "23"], ids=["whole", "in small splits"])
def split_spark(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Reads files whole, and in splits that are shorter than most lines."""
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", request.param)
    yield spark
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def row(run: str, tier: str, node: str, operation: str, outcome: str, end: int, took: int) -> tuple[object, ...]:
    start = end - took * MILLISECOND
    return (run, tier, node, "", 0, operation, outcome, start, start, end, *[None] * 7, 0, 0, None)


def test_both_formats_in_nested_folders_become_rows(spark: SparkSession, tmp_path: Path) -> None:
    run = tmp_path / "test run 56 [ü]"
    write(
        run / "broker 1" / "perf+log=1%20.log",
        HEADER,
        f"4;{END};BRcvReq;C[9]",
        f"129;{END};BProcReq#RegistrationRequest:RegistrationResponse;C[10]",
        f"93;{END};BDb#getClientId;C[10]",
        f"2;{END};BDb#dequeueMessage#Ok#0;C[10]",
        f"2;{END};BDb#dequeueMessage#Error;",
        f"0;{END};BSndResp;",
        f"132;{END};BTotReqResp;C[10]",
    )
    write(
        run / "clients" / "Zürich" / "ohne Endung",
        HEADER,
        f"5;{END};CSndReq#OK#LoginRequest:LoginResponse;",
        f"1000;{END};CSndReq#Error#Timeout#SendMessageRequest:Null;",
        f"7;{END};CSndReq#Error##queue; full: 3#SendMessageRequest:Null;",
    )
    write(
        run / "old.txt",
        "12;20131028143015;ClientSendRequest#OK#LoginRequest:LoginResponse",
        "13;20131028143015;ClientSendRequest#Error#LoginRequest:Null",
        "1;20131028143015;ReceiveRequest",
        "10;20131028143015;ProcessRequest#LoginRequest:LoginResponse",
        "2;20131028143015;SendResponse",
        "14;20131028143015;TotalRequestResponse",
    )

    source = mlmq.read(spark, [run])

    broker, client = "broker 1/perf+log=1%20.log", "clients/Zürich/ohne Endung"
    new, old = END * MILLISECOND, 1382970615000 * MILLISECOND
    expected = [
        ("broker receive", broker, "ReceiveRequest", "ok", new, 4),
        ("broker process", broker, "RegistrationRequest", "ok", new, 129),
        ("broker database", broker, "getClientId", "ok", new, 93),
        ("broker database", broker, "dequeueMessage", "empty", new, 2),
        ("broker database", broker, "dequeueMessage", "Error", new, 2),
        ("broker send", broker, "SendResponse", "ok", new, 0),
        ("broker", broker, "TotalRequestResponse", "ok", new, 132),
        ("client", client, "LoginRequest", "ok", new, 5),
        ("client", client, "SendMessageRequest", "Timeout", new, 1000),
        ("client", client, "SendMessageRequest", "queue; full: 3", new, 7),
        ("client", "old.txt", "LoginRequest", "ok", old, 12),
        ("client", "old.txt", "LoginRequest", "Error", old, 13),
        ("broker receive", "old.txt", "ReceiveRequest", "ok", old, 1),
        ("broker process", "old.txt", "LoginRequest", "ok", old, 10),
        ("broker send", "old.txt", "SendResponse", "ok", old, 2),
        ("broker", "old.txt", "TotalRequestResponse", "ok", old, 14),
    ]
    assert rows(source, *ROWS.names) == sorted((row(run.name, *each) for each in expected), key=repr)
    batch = added(source)
    assert batch.rejects == []
    [whole] = batch.runs
    assert (whole.run, whole.clients, whole.brokers) == (run.name, {"clients": 2}, 2)
    assert (whole.load, whole.folder) == (Window(old - 14 * MILLISECOND, new + 1), str(run))
    assert (whole.window, whole.valid, whole.think_time_s) == (whole.load, None, None)
    assert source.rows.schema.simpleString() == ROWS.simpleString()


def test_bad_lines_are_rejected_with_their_number_and_the_rest_is_kept(
    split_spark: SparkSession, tmp_path: Path
) -> None:
    good = f"4;{END};BRcvReq;C[9]"
    lines = [
        HEADER.encode(),
        good.encode() + b"\r",
        b"\r",
        f"x4;{END};BRcvReq;C[9]".encode(),
        b"   ",
        f"4;{END}".encode(),
        good.encode(),
        b"\xff\xfe\x00\x01 junk ;;; \x80",
        f"4;{END};Rest;C[9]".encode(),
        f"4;{END};CSndReq#OK;".encode(),
        f"4;{END};CSndReq#Perhaps#LoginRequest:Null;".encode(),
        f"-4;{END};BRcvReq;".encode(),
        b"4;123456789012345;BRcvReq;",
        b"4;20131328143015;ReceiveRequest",
        HEADER.encode(),
        good.encode(),
        b"4;13836",
    ]
    run = tmp_path / "r"
    run.mkdir()
    (run / "a.log").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    write(run / "b.log", *[good] * 30, "y" * 300, *[good] * 3)

    source = mlmq.read(split_spark, [run])

    a = [
        (3, "", "the line is empty"),
        (4, f"x4;{END};BRcvReq;C[9]", "the milliseconds are not a whole number"),
        (5, "   ", "the line is empty"),
        (6, f"4;{END}", THREE_FIELDS),
        (8, "\ufffd\ufffd\x00\x01 junk ;;; \ufffd", "the milliseconds are not a whole number"),
        (9, f"4;{END};Rest;C[9]", "there is no action Rest"),
        (10, f"4;{END};CSndReq#OK;", "the action does not name its request"),
        (11, f"4;{END};CSndReq#Perhaps#LoginRequest:Null;", "the action says neither OK nor Error"),
        (12, f"-4;{END};BRcvReq;", "the milliseconds are not a whole number"),
        (13, "4;123456789012345;BRcvReq;", NO_TIME),
        (14, "4;20131328143015;ReceiveRequest", NO_TIME),
        (15, HEADER, THREE_FIELDS),
        (17, "4;13836", THREE_FIELDS),
    ]
    assert rejects(source, run) == [*(("a.log", *each) for each in a), ("b.log", 31, "y" * 200, THREE_FIELDS)]
    assert source.rows.count() == 3 + 33
    assert source.rejects.schema.simpleString() == REJECTS.simpleString()


def test_no_python_runs_per_row(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.log", HEADER, f"4;{END};BRcvReq;C[9]", "bad")

    source = mlmq.read(spark, [tmp_path])

    assert not runs_python(source.rows)
    assert not runs_python(source.rejects)


def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        write(tmp_path / name, f"4;{END};BRcvReq;C[9]")
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    (tmp_path / "empty.log").touch()

    source = mlmq.read(spark, [tmp_path])

    batch = added(source)
    [(file, line, text, reason)] = below(batch.rejects, tmp_path)
    assert (file, line, text) == ("bad.gz", 0, "")
    assert reason.startswith("cannot be read: ")
    assert sorted(request["broker"] for request in batch.requests) == ["a.log", "b.log", "c.log"]


def test_each_folder_that_is_given_is_a_run(spark: SparkSession, tmp_path: Path) -> None:
    for place in ("x/logs", "y/logs", "z"):
        write(tmp_path / place / "deep" / "a.log", f"4;{END};BRcvReq;C[9]")
    for place in ("facts.json", "csv/summary.csv", "tables/phase_windows/part-0.parquet"):
        write(tmp_path / "z" / "analysis" / place, "7;our own results;of last time")
    write(tmp_path / "z" / "requests" / "data" / "added=0123abcd" / "part-0.parquet", "7;requests;that were kept")

    source = mlmq.read(spark, [tmp_path / "x" / "logs", tmp_path / "y" / "logs", tmp_path / "z"])

    same = [str(tmp_path / "x" / "logs"), str(tmp_path / "y" / "logs")]
    batch = added(source)
    assert [(run.run, run.folder) for run in batch.runs] == [
        *((folder, folder) for folder in same), ("z", str(tmp_path / "z"))
    ]  # fmt: skip
    assert rows(source, "run", "node") == sorted((run, "deep/a.log") for run in (*same, "z"))
    assert batch.rejects == []


def test_a_folder_without_logs_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=f"there is nothing to read in {tmp_path}$"):
        mlmq.read(spark, [tmp_path])
