from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette import trace as module
from stafette.trace import PHASES, SCHEMA, Trace


def add(trace: Trace, request: int, *, client: str = "alice-1", end: int = 30, outcome: str = "ok") -> None:
    trace.add(client, request, "send", outcome, 10, 20, end, 1, 2, 3, -1, 5, 6, 7, 200, 1, 32)


def parquet_only(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def test_a_row_is_what_was_added(tmp_path: Path) -> None:
    before = time.time_ns() - time.perf_counter_ns()
    trace = Trace(tmp_path / "traces", run="r-1", tier="broker", node="host:7470/12")
    add(trace, 7)
    trace.close()

    [file] = parquet_only(tmp_path / "traces")
    assert file.name == f"broker-host_7470_12-{os.getpid()}-00001.parquet"
    table = pq.read_table(file)
    assert table.schema.equals(SCHEMA)
    [row] = table.to_pylist()
    epoch = row["start_ns"] - 20
    assert abs(epoch - before) < 1e9
    assert row == {
        "run": "r-1", "tier": "broker", "node": "host:7470/12", "client": "alice-1", "request": 7,
        "operation": "send", "outcome": "ok", "intended_ns": epoch + 10, "start_ns": epoch + 20, "end_ns": epoch + 30,
        **dict(zip(PHASES, (1, 2, 3, None, 5, 6, 7), strict=True)), "bytes": 200, "messages": 1, "batch": 32,
    }  # fmt: skip


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=5), st.sampled_from(["ok", "empty", "Overloaded"])), max_size=40)
)
def test_no_row_is_lost_or_changed_whatever_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("traces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 7)
        trace = Trace(folder, run="r", tier="client", node="load-1")
        for number, (client, outcome) in enumerate(written):
            add(trace, number, client=client, outcome=outcome)
        assert trace.rows == len(written)
        trace.close()

    files = parquet_only(folder)
    assert len(files) == -(-len(written) // 7)
    found = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert [(row["request"], row["client"], row["outcome"]) for row in found] == [
        (number, client, outcome) for number, (client, outcome) in enumerate(written)
    ]


def test_a_chunk_is_closed_by_the_first_record_long_after_it_was_begun(tmp_path: Path) -> None:
    trace = Trace(tmp_path, run="r", tier="client", node="n")
    for number, second in enumerate((1, 2, 3, 7, 8)):
        add(trace, number, end=second * 10**9)
    trace.close()

    assert [pq.read_table(file).num_rows for file in parquet_only(tmp_path)] == [3, 2]


def test_rows_the_disk_refuses_are_counted_and_explained(tmp_path: Path) -> None:
    trace = Trace(tmp_path, run="r", tier="client", node="n")
    (tmp_path / f"client-n-{os.getpid()}-00001.parquet").mkdir()  # in the way of the closed file, even for root
    add(trace, 1)
    trace.close()

    report = json.loads((tmp_path / f"client-n-{os.getpid()}.json").read_text())
    assert (report["rows"], report["dropped"]) == (0, 1)
    assert f"client-n-{os.getpid()}-00001.parquet could not be written" in report["why"]


def test_when_too_many_chunks_wait_rows_are_dropped_and_counted(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 1)
        patch.setattr(module, "MAX_WAITING_CHUNKS", 2)
        os.mkfifo(
            tmp_path / f"client-n-{os.getpid()}-00001.tmp"
        )  # the writer waits until somebody reads, then cannot write
        trace = Trace(tmp_path, run="r", tier="client", node="n")
        for number in range(10):
            add(trace, number)
        assert trace.dropped > 0
        with (tmp_path / f"client-n-{os.getpid()}-00001.tmp").open("rb") as reader:
            reader.read()
        trace.close()

    report = json.loads((tmp_path / f"client-n-{os.getpid()}.json").read_text())
    assert report["rows"] + report["dropped"] == 10
    assert report["dropped"] >= 6
    assert report["why"] == "the disk did not keep up"
    assert sum(pq.read_table(file).num_rows for file in parquet_only(tmp_path)) == report["rows"] > 0


def test_nothing_that_is_listed_is_unfinished(tmp_path: Path) -> None:
    trace = Trace(tmp_path, run="r", tier="client", node="n")
    add(trace, 1)
    assert not list(tmp_path.glob("*.json"))
    trace.close()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"client-n-{os.getpid()}-00001.parquet",
        f"client-n-{os.getpid()}.json",
    }


def test_a_chunk_is_written_without_pandas(tmp_path: Path) -> None:
    """Arrow imports it where it can, which takes a second in the middle of a load."""
    program = (
        "import sys; from pathlib import Path; from stafette.trace import Trace;"
        f"trace = Trace(Path({str(tmp_path)!r}), run='r', tier='client', node='n');"
        "trace.add('ü', 1, 'send', 'ok', 1, 2, 3, -1, 2, 3, 4, 5, 6, 7, 8, 9, -1); trace.close();"
        "sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    [row] = pq.read_table(next(tmp_path.glob("*.parquet"))).to_pylist()
    assert (row["client"], row["read_ns"], row["decode_ns"], row["batch"]) == ("ü", None, 2, None)


def test_the_former_name_of_the_drop_reason_works_and_warns(tmp_path: Path) -> None:
    trace = Trace(tmp_path, run="r-1", tier="client", node="load-1")
    trace.close()
    trace.drop_reason = "the disk did not keep up"
    with pytest.warns(DeprecationWarning, match=r"Trace\.drop_reason"):
        assert trace.why == "the disk did not keep up"
