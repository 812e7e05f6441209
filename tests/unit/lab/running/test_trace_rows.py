"""Rows come back from the disk as they were written, and what cannot be read is told in a sentence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stafette.errors import InvalidRequest
from stafette.lab.running.trace_rows import Rows, TierRows, read
from stafette.trace import PHASES, SCHEMA, EndReport, Trace
from tests.support.run_traces import Row, at_broker, report, write


def told(rows: Rows, tier: TierRows) -> list[tuple[str, str, str, int, int, int, int, int]]:
    return [
        (rows.clients[client], rows.operations[operation], rows.outcomes[outcome], *map(int, numbers))
        for client, operation, outcome, *numbers in zip(
            tier.client, tier.operation, tier.outcome, tier.request, tier.intended, tier.start, tier.end, tier.messages,
            strict=True,
        )
    ]  # fmt: skip


def test_rows_of_all_files_come_together_under_the_same_codes(tmp_path: Path) -> None:
    first = [Row("alice-1", 1, "send", "ok", 1, 2, 3, 4), Row("bob-1", 1, "receive", "empty", 5, 6, 7)]
    second = [Row("bob-1", 2, "receive", "ok", 8, 9, 10, 11), Row("alice-1", 2, "send", "Overloaded", 12, 13, 14)]
    write(tmp_path / "client-load-1-00001.parquet", first)
    write(tmp_path / "client-load-1-00002.parquet", second)
    write(tmp_path / "broker-broker-1-00001.parquet", [at_broker(row) for row in (*second, *first)])

    rows = read(tmp_path)

    assert told(rows, rows.client) == [
        ("alice-1", "send", "ok", 1, 1, 2, 3, 4),
        ("bob-1", "receive", "empty", 1, 5, 6, 7, 0),
        ("bob-1", "receive", "ok", 2, 8, 9, 10, 11),
        ("alice-1", "send", "Overloaded", 2, 12, 13, 14, 0),
    ]
    assert [row[:4] for row in told(rows, rows.broker)] == [row[:4] for row in told(rows, rows.client)][2:] + [
        row[:4] for row in told(rows, rows.client)
    ][:2]
    assert rows.written == {("client", "load-1"): 4, ("broker", "broker-1"): 4}
    assert rows.with_outcome(rows.client, {"ok", "empty"}).tolist() == [True, True, True, False]
    assert rows.with_operation(rows.client, {"send"}).tolist() == [True, False, False, True]


def test_a_file_may_hold_both_tiers_and_plain_strings(tmp_path: Path) -> None:
    mine = [Row("alice-1", 1), at_broker(Row("alice-1", 1)), Row("alice-1", 2), Row("alice-1", 3, node="load-2")]
    plain = pa.schema(
        [(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type) for field in SCHEMA]
    )
    write(tmp_path / "all.parquet", mine, plain)
    rows = read(tmp_path)
    assert rows.client.request.tolist() == [1, 2, 3]
    assert rows.broker.request.tolist() == [1]
    assert rows.written == {("client", "load-1"): 2, ("client", "load-2"): 1, ("broker", "broker-1"): 1}


def test_phases_come_when_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [Row(), at_broker(Row())])
    assert read(tmp_path).broker.phases == {}
    rows = read(tmp_path, phases=True)
    assert {name: values.tolist() for name, values in rows.broker.phases.items()} == {
        name: [number] for number, name in enumerate(PHASES)
    }
    assert {name: values.tolist() for name, values in rows.client.phases.items()} == {name: [-1] for name in PHASES}


def test_what_the_trace_writes_is_read(tmp_path: Path) -> None:
    trace = Trace(tmp_path, run="r-1", tier="client", node="load 1")
    trace.add("alice-1", 7, "send", "ok", 100, 200, 300, -1, -1, 5, -1, -1, 6, -1, 10, 2, -1)
    trace.close()
    rows = read(tmp_path)
    [(client, operation, outcome, request, intended, start, end, messages)] = told(rows, rows.client)
    assert (client, operation, outcome, request, messages) == ("alice-1", "send", "ok", 7, 2)
    assert (start - intended, end - start) == (100, 100)
    assert rows.reports == (EndReport("client", "load 1", 1, 0),)
    assert rows.written == {("client", "load 1"): 1}


def test_end_reports_are_read(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [Row()])
    report(tmp_path, "client", "load-1", 1)
    report(tmp_path, "broker", "broker-1", 0, 5, "the disk is full")
    (tmp_path / "client-load-2.json.tmp").write_text("{")
    assert read(tmp_path).reports == (
        EndReport("broker", "broker-1", 0, 5, "the disk is full"),
        EndReport("client", "load-1", 1, 0, None),
    )


def test_files_that_were_not_closed_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [Row()])
    (tmp_path / "b.tmp").write_bytes(b"PAR1 half a fi")
    (tmp_path / "c.parquet.tmp").write_bytes(b"PAR1 half a fi")
    assert len(read(tmp_path).client) == 1


def test_a_tier_may_have_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [Row()])
    rows = read(tmp_path, phases=True)
    assert len(rows.broker) == 0
    assert rows.with_outcome(rows.broker, {"ok"}).tolist() == []


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(folder)
    return refused.value.sentence


def test_no_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "traces").startswith(f"there is no folder {tmp_path}/traces; ")


def test_no_rows(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith(f"there are no trace rows in {tmp_path}; ")
    write(tmp_path / "a.parquet", [])
    assert refusal(tmp_path).startswith(f"there are no trace rows in {tmp_path}; ")


@pytest.mark.parametrize("keep", [0, 3, 200, -20])
def test_a_file_that_is_cut_short(tmp_path: Path, keep: int) -> None:
    write(tmp_path / "a.parquet", [Row(request=number) for number in range(1000)])
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:keep])
    assert refusal(tmp_path).startswith(f"{tmp_path}/a.parquet cannot be read as a trace: ")


def test_a_file_with_other_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"tier": ["client"], "node": ["load-1"]}), tmp_path / "a.parquet")
    assert refusal(tmp_path) == f"{tmp_path}/a.parquet is not a trace: it has no column client; move it elsewhere"


def test_a_row_without_a_value(tmp_path: Path) -> None:
    columns = {field.name: pa.array([None], field.type) for field in SCHEMA}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert "a row has no tier" in refusal(tmp_path)


def test_a_tier_that_is_none(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [Row(tier="database")])
    assert "there is no tier 'database'" in refusal(tmp_path)


def test_an_end_report_that_is_none(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [Row()])
    (tmp_path / "client-load-1.json").write_text('{"tier": "client"}')
    assert refusal(tmp_path).startswith(f"{tmp_path}/client-load-1.json is not the end report of a trace: ")
