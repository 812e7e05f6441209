"""Requests: the tiers of each side by side, and what their phases come to, against plain Python on the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stafette.pipeline import requests, results, run_tables, times
from stafette.pipeline.requests import CLIENT_PHASES, REQUESTS
from stafette.pipeline.results import PHASES
from stafette.pipeline.run_tables import Names
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import REJECTS, ROWS, small
from stafette.pipeline.sources import native
from stafette.pipeline.sources.base import Source
from stafette.report.result_tables import PERCENTILES
from stafette.runs.moments import mean_ms, stddev_ms
from stafette.runs.window import Window
from stafette.trace import PHASES as BROKER_PHASES
from stafette.trace import SCHEMA
from tests.support import synthetic_runs
from tests.support.spark_frames import added, assert_no_python, final_plan

Trace = dict[str, Any]
Pair = tuple[Trace | None, Trace | None]
"""A request as both tiers know it."""

SECOND, BEGIN = synthetic_runs.SECOND, synthetic_runs.BEGIN
WINDOW_NS, LOAD_NS = SECOND // 4, 6 * SECOND // 10


def spans() -> dict[str, RunTimes]:
    """The load ends before the last requests begin."""
    load = Window(BEGIN, BEGIN + LOAD_NS)
    measured = Window(BEGIN + SECOND // 10, BEGIN + SECOND // 2)
    return {f"made-0001/{number}": RunTimes(f"made-0001/{number}", load, measured, WINDOW_NS) for number in (1, 2)}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Two runs with clients and requests of the same names; some never sent, lost, or known only to a broker."""
    parts = []
    for number, run in enumerate(spans(), 1):
        rows = synthetic_runs.requests(3_000, seed=number, run=run, never_sent=0.02, lost=0.03)
        is_client = np.array(rows["tier"].to_pylist()) == "client"
        forgotten = is_client & (np.arange(len(rows)) % 97 == 0) & (np.array(rows["request"].to_pylist()) > 0)
        parts.append(rows.filter(pa.array(~forgotten)))
    return pa.concat_tables(parts).unify_dictionaries()


@pytest.fixture(scope="module")
def rows(spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return traces(spark, tmp_path_factory.mktemp("tiers"), table)


@pytest.fixture(scope="module")
def joined(rows: DataFrame) -> Iterator[DataFrame]:
    frame = requests.of_traces(rows).persist()
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def names(rows: DataFrame) -> Names:
    named = requests.names_of(rows).collect()
    codes = {row["code"]: (row["tier"], row["operation"], row["outcome"]) for row in named}
    return Names({row["run_code"]: row["run"] for row in named}, codes)


def traces(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    synthetic_runs.write_traces(folder, table)
    return spark.read.schema(ROWS).option("pathGlobFilter", "*.parquet").parquet(str(folder))


def paired(rows: Sequence[Trace]) -> list[Pair]:
    """What the join is to find: clients with their brokers, then what only a broker knows."""
    brokers = {(row["run"], row["client"], row["request"]): row for row in rows if row["tier"] == "broker"}
    keyed = [((row["run"], row["client"], row["request"]), row) for row in rows if row["tier"] == "client"]
    pairs: list[Pair] = [(row, brokers.pop(key, None)) for key, row in keyed]
    return [*pairs, *((None, row) for row in brokers.values())]


def as_request(client: Trace | None, broker: Trace | None) -> dict[str, Any]:
    """A row of REQUESTS, with names in the place of codes."""

    def names_of(row: Trace | None) -> tuple[str, ...] | None:
        return None if row is None else (row["tier"], row["operation"], row["outcome"])

    client_columns = ("client", "request", "intended_ns", "start_ns", "end_ns", "bytes", "messages")
    broker_columns = {
        "broker": "node", "broker_start_ns": "start_ns", "broker_end_ns": "end_ns", "batch": "batch",
        "broker_bytes": "bytes", "broker_messages": "messages", **{phase: phase for phase in BROKER_PHASES},
    }  # fmt: skip
    known = client or broker
    assert known is not None
    return (
        {"run": known["run"], "client_names": names_of(client), "broker_names": names_of(broker)}
        | {name: client and client[name] for name in client_columns}
        | {alias: client and client[name] for name, alias in CLIENT_PHASES.items()}
        | {name: broker and broker[column] for name, column in broker_columns.items()}
    )


def readable(frame: DataFrame, names: Names) -> list[dict[str, Any]]:
    listed = frame.toArrow().to_pylist()
    codes = names.codes
    return [
        {"run": names.runs[row.pop("run_code")]}
        | {f"{tier}_names": codes.get(row.pop(f"{tier}_code")) for tier in ("client", "broker")}
        | row
        for row in listed
    ]


def in_order(rows: Iterable[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted((sorted(row.items()) for row in rows), key=repr)


def test_tiers_are_side_by_side_and_the_rest_is_left_over(joined: DataFrame, names: Names, table: pa.Table) -> None:
    pairs = paired(table.to_pylist())
    assert all(any(test(pair) for pair in pairs) for test in (lambda p: p[0] is None, lambda p: p[1] is None, all))

    assert joined.schema.simpleString() == REQUESTS.simpleString()
    assert in_order(readable(joined, names)) == in_order(as_request(*pair) for pair in pairs)


def test_joins_count_what_each_tier_knows(
    joined: DataFrame, names: Names, spark: SparkSession, table: pa.Table
) -> None:
    by_window = results.tiers(joined, times.frame(spark, list(spans().values()))).toArrow().to_pylist()

    rows = {row["run"]: row for row in run_tables.joins(by_window, names).to_pylist()}

    assert rows.keys() == spans().keys()
    for run, row in rows.items():
        pairs = [pair for pair in paired(table.to_pylist()) if run in {tier["run"] for tier in pair if tier}]
        never_sent = sum(client is not None and client["request"] == 0 for client, _ in pairs)
        clients = sum(client is not None for client, _ in pairs)
        brokers = sum(broker is not None for _, broker in pairs)
        both = sum(client is not None and broker is not None for client, broker in pairs)
        assert row == {
            "run": run, "client_rows": clients, "broker_rows": brokers, "joined": both, "never_sent": never_sent,
            "client_only": clients - both - never_sent, "broker_only": brokers - both,
        }  # fmt: skip
        assert min(row["never_sent"], row["client_only"], row["broker_only"]) > 0


def spent(phase: str, client: Trace, broker: Trace) -> int | None:
    """Nanoseconds of a phase; null where it was not passed."""
    own = {alias.removesuffix("_ns"): client[name] for name, alias in CLIENT_PHASES.items()}
    if phase == "network":
        in_broker = broker["end_ns"] - broker["start_ns"] - (broker["write_ns"] or 0)
        response: int = client["end_ns"] - client["intended_ns"]
        return int(response - sum(value or 0 for value in own.values()) - in_broker)
    lengths: dict[str, int | None] = own | {name.removesuffix("_ns"): broker[name] for name in BROKER_PHASES}
    return lengths[phase]


def known_to_both(table: pa.Table, window: Window) -> dict[tuple[str, str, str], list[tuple[Trace, Trace]]]:
    """What both tiers know and was to start in a window of time, by run, operation and outcome of the client."""
    groups: dict[tuple[str, str, str], list[tuple[Trace, Trace]]] = {}
    for client, broker in paired(table.to_pylist()):
        if client and broker and window.start_ns <= client["intended_ns"] < window.end_ns:
            groups.setdefault((client["run"], client["operation"], client["outcome"]), []).append((client, broker))
    return groups


def test_phases_and_their_breakdown_are_what_python_says(
    joined: DataFrame, names: Names, spark: SparkSession, table: pa.Table
) -> None:
    figures = results.phases(joined, times.frame(spark, list(spans().values()))).toArrow().to_pylist()

    phases, breakdown = (build(figures, names).to_pylist() for build in (run_tables.phases, run_tables.breakdown))

    groups = known_to_both(table, next(iter(spans().values())).measured)
    assert [(row["run"], row["operation"], row["outcome"]) for row in breakdown] == sorted(groups)
    assert [(row["run"], row["operation"], row["outcome"], row["phase"]) for row in phases] == [
        (*group, phase) for group in sorted(groups) for phase in PHASES
    ]
    for row in phases:
        pairs = groups[row["run"], row["operation"], row["outcome"]]
        _compare(row, [value for pair in pairs if (value := spent(row["phase"], *pair)) is not None])
    for row in breakdown:
        pairs = groups[row["run"], row["operation"], row["outcome"]]
        assert row["count"] == len(pairs)
        assert row["client_ms"] == _mean([client["end_ns"] - client["intended_ns"] for client, _ in pairs])
        for phase in PHASES:
            column = "unexplained_ms" if phase == "network" else f"{phase}_ms"
            assert row[column] == _mean([spent(phase, *pair) or 0 for pair in pairs])
        parts = [value for name, value in row.items() if name.endswith("_ms") and name not in ("client_ms", "write_ms")]
        assert sum(parts) == pytest.approx(row["client_ms"]), "all but what the broker writes adds up"


def _compare(row: dict[str, Any], values: list[int]) -> None:
    assert row["count"] == len(values) > 0
    assert row["mean_ms"] == _mean(values)
    assert row["stddev_ms"] == stddev_ms(len(values), sum(values), sum(value * value for value in values))
    assert row["max_ms"] == max(values) / 1e6
    ordered = sorted(value // 1000 for value in values)
    for name, thousandths in PERCENTILES.items():
        assert row[name] == ordered[-(-thousandths * len(ordered) // 1000) - 1] / 1000, (row["phase"], name)


def _mean(values: Sequence[int]) -> float:
    return mean_ms(len(values), sum(values))


def test_phases_over_time_are_what_python_says(
    joined: DataFrame, names: Names, spark: SparkSession, table: pa.Table
) -> None:
    by_window = results.tiers(joined, times.frame(spark, list(spans().values()))).toArrow().to_pylist()

    rows = run_tables.phase_windows(by_window, names, spans()).to_pylist()

    assert any(row["window"] is None for row in by_window), "some begin when the load is over"
    expected: dict[tuple[str, str, float], list[int]] = {}
    for number in range(-(-LOAD_NS // WINDOW_NS)):
        start = BEGIN + number * WINDOW_NS
        window = Window(start, min(start + WINDOW_NS, BEGIN + LOAD_NS))
        for (run, *_), pairs in known_to_both(table, window).items():
            for phase in PHASES:
                lengths = expected.setdefault((run, phase, number * WINDOW_NS / SECOND), [])
                lengths += [value for pair in pairs if (value := spent(phase, *pair)) is not None]
    assert [(row["run"], row["phase"], row["second"]) for row in rows] == sorted(expected)
    for row in rows:
        lengths = expected[row["run"], row["phase"], row["second"]]
        assert (row["count"], row["mean_ms"]) == (len(lengths), _mean(lengths))


def test_a_phase_that_nobody_passed_has_no_row_and_counts_for_nothing_in_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = synthetic_runs.requests(20, run="made-0001/1")
    for name in ("queue_ns", "write_ns"):  # in both tiers
        table = table.set_column(table.schema.get_field_index(name), name, pa.nulls(len(table), pa.int64()))
    rows = traces(spark, tmp_path, table)
    named = requests.names_of(rows).collect()
    names = Names(
        {row["run_code"]: row["run"] for row in named},
        {row["code"]: (row["tier"], row["operation"], row["outcome"]) for row in named},
    )
    whole = RunTimes("made-0001/1", Window(BEGIN, BEGIN + SECOND), Window(BEGIN, BEGIN + SECOND))
    figures = results.phases(requests.of_traces(rows), times.frame(spark, [whole])).toArrow().to_pylist()

    phases, breakdown = (build(figures, names).to_pylist() for build in (run_tables.phases, run_tables.breakdown))

    assert {row["phase"] for row in phases} == set(PHASES) - {"queue", "write", "client_queue"}
    assert all(row["queue_ms"] is row["write_ms"] is row["client_queue_ms"] is None for row in breakdown)
    groups = known_to_both(table, whole.measured)
    for row in breakdown:
        pairs = groups[row["run"], row["operation"], row["outcome"]]
        assert row["unexplained_ms"] == _mean([spent("network", *pair) or 0 for pair in pairs])


def test_a_small_join_is_hashed_and_looks_at_each_tier_once(rows: DataFrame) -> None:
    frame = requests.of_traces(rows)
    frame.collect()

    plan = final_plan(frame)

    assert "ShuffledHashJoin" in plan
    assert "SortMergeJoin" not in plan
    assert plan.count("FileScan") == 2
    assert_no_python(frame)


def test_codes_stand_for_names_and_the_answered_of_a_tier_have_one_of_their_own(rows: DataFrame) -> None:
    named = requests.names_of(rows).collect()

    by_code = {row["code"]: row for row in named}
    assert len({(row["run_code"], row["code"]) for row in named}) == len(named)
    for row in named:
        if row["outcome"] not in ("ok", "empty"):
            assert row["answered_code"] is None
            continue
        answered = by_code[row["answered_code"]]
        assert (answered["tier"], answered["operation"], answered["outcome"]) == (row["tier"], "all", "answered")
    wholes = {(row["run"], row["tier"]) for row in named if row["operation"] == "all"}
    assert wholes == {(run, tier) for run in spans() for tier in ("client", "broker")}


# Numbers that are there more than once, or not at all


def trace(tier: str, request: int, start: int, *, client: str = "c-1", node: str = "") -> tuple[Any, ...]:
    """A row of a millisecond that starts so many milliseconds after the beginning."""
    begin = BEGIN + start * synthetic_runs.MILLISECOND
    times = (begin, begin, begin + synthetic_runs.MILLISECOND)
    node = node or f"{tier}-1"
    return ("made-0001/1", tier, node, client, request, "send", "ok", *times, *[None] * 7, 10, 1, None)


REPEATED = [
    trace("client", 1, 0), trace("client", 1, 10), trace("client", 1, 20),
    trace("broker", 1, 11), trace("broker", 1, 1),
    trace("client", 2, 30), trace("broker", 2, 31), trace("broker", 2, 41),
    trace("client", 3, 50), trace("broker", 3, 51),
    trace("client", 0, 60), trace("client", 0, 60), trace("broker", 0, 60), trace("client", 4, 70),
]  # fmt: skip
PAIRS = {(0, 1), (10, 11), (20, None), (30, 31), (None, 41), (50, 51), (60, None), (None, 60), (70, None)}
"""When the client and the broker start, of the requests in `REPEATED`; one of them is there twice."""


def source(spark: SparkSession, rows: Sequence[tuple[Any, ...]], *, is_paired: bool = True) -> Source:
    return Source(
        small(spark, rows, ROWS), small(spark, [], REJECTS), fingerprints={"": "x"}, fresh=[""], paired=is_paired
    )


def starts(rows: Sequence[dict[str, Any]]) -> list[tuple[int | None, int | None]]:
    def since(moment: int | None) -> int | None:
        return None if moment is None else (moment - BEGIN) // synthetic_runs.MILLISECOND

    return [(since(row["start_ns"]), since(row["broker_start_ns"])) for row in rows]


def test_repeated_requests_are_matched_one_to_one_in_their_order(spark: SparkSession) -> None:
    batch = added(source(spark, REPEATED))

    pairs = starts(batch.requests)
    assert set(pairs) == PAIRS
    assert (len(pairs), pairs.count((60, None))) == (len(PAIRS) + 1, 2)


def test_repeated_requests_of_the_laboratory_are_matched_one_to_one_beside_rows_that_are_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad = list(trace("client", 9, 80))
    bad[9] = 3  # it ends before it starts
    given = [*REPEATED, tuple(bad)]
    columns = zip(*given, strict=True)
    arrays = [pa.array(column) for column in columns]
    table = pa.Table.from_arrays(arrays, names=ROWS.names)
    table = table.cast(pa.schema([field.with_nullable(True) for field in SCHEMA]))
    synthetic_runs.make_run(tmp_path, table, run="made-0001/1")

    batch = added(native.read(spark, [tmp_path]))

    assert set(starts(batch.requests)) == PAIRS
    assert len(batch.requests) == len(PAIRS) + 1
    assert [reason for *_, reason in batch.rejects] == ["it ends before it starts"]


def test_a_repeated_request_is_seen_beside_as_many_rows_that_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    late = list(trace("client", 9, 80))
    late[9] = 3  # it ends before it starts
    given = [trace("client", 1, 0), trace("client", 1, 10), trace("broker", 1, 1), tuple(late)]
    arrays = [pa.array(column) for column in zip(*given, strict=True)]
    table = pa.Table.from_arrays(arrays, names=ROWS.names)
    table = table.cast(pa.schema([field.with_nullable(True) for field in SCHEMA]))
    synthetic_runs.make_run(tmp_path, table, run="made-0001/1")

    batch = added(native.read(spark, [tmp_path]))

    assert sorted(starts(batch.requests), key=str) == [(0, 1), (10, None)]
    assert [reason for *_, reason in batch.rejects] == ["it ends before it starts"]


def test_without_numbers_nothing_is_paired_and_a_client_without_a_name_has_that_of_its_node(
    spark: SparkSession,
) -> None:
    given = [
        trace("client", 0, 0, client="", node="a.log"), trace("client", 0, 0, client="named"),
        trace("broker", 0, 0, client="", node="b.log"), trace("broker send", 0, 0, client="", node="b.log"),
    ]  # fmt: skip

    frame = requests.of_traces(small(spark, given, ROWS), paired=False)

    plan = frame._jdf.queryExecution().toString()
    assert "Join" not in plan
    assert "Exchange" not in plan, "no row moves"
    known = [(row["client"], row["broker"], row["client_code"] is None) for row in frame.collect()]
    assert sorted(known, key=repr) == [
        ("a.log", None, False), ("named", None, False), (None, "b.log", True), (None, "b.log", True)
    ]  # fmt: skip


def test_the_tiers_of_a_source_without_numbers_are_rows_of_their_own(spark: SparkSession) -> None:
    given = [trace("client", 0, 0), trace("broker", 0, 0), trace("broker send", 0, 0)]

    batch = added(source(spark, given, is_paired=False))

    assert sorted(row["client_names"] or row["broker_names"] for row in batch.requests) == [
        ("broker", "send", "ok"), ("broker send", "send", "ok"), ("client", "send", "ok")
    ]  # fmt: skip
    [run] = batch.runs
    assert (run.clients, run.brokers) == ({"clients": 1}, 2)
