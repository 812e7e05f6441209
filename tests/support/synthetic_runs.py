"""Run folders as the laboratory leaves them, of requests that are made up: each of its figures is known beforehand.

The requests are of a closed loop. Their phases add up: a broker's are its whole span, and a client's response time is
its own phases, the network's share, and the broker's span.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stafette.lab.experiment import experiment_file
from stafette.lab.series import series_folder
from stafette.runs import records
from stafette.runs.records import DesignKind, RunRecord, Verdict
from stafette.runs.window import Window
from stafette.trace import FORMAT, PHASES, SCHEMA

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
"""When the load of a made-up run begins."""
RUN = "made-0001/001-single-r1"
LEAST_NETWORK = 20_000

Whole = NDArray[np.int64]

EXPERIMENT = """
name = "made"
[run]
warm_up = {warm_up}
duration = {duration}
cool_down = {cool_down}
[system]
brokers = {brokers}
[clients.alice]
behaviour = "alice"
count = {clients}
think_time = {think_time}
"""


def requests(
    count: int,
    *,
    seed: int = 1,
    run: str = RUN,
    clients: int = 10,
    brokers: int = 2,
    think_time_s: float = 0.001,
    never_sent: float = 0.0,
    lost: float = 0.0,
    begin_ns: int = BEGIN,
) -> pa.Table:
    """So many requests with both tiers, in trace.SCHEMA: first the clients' rows, then the brokers'.

    Of the requests a share was never sent to a broker (outcome Unavailable), and one was lost before a broker saw it.
    """
    chance = np.random.default_rng(seed)
    client = np.arange(count) % clients
    request = np.arange(count) // clients + 1
    operation = chance.choice(np.array(["send", "receive", "echo"]), count, p=[0.5, 0.4, 0.1])
    outcome = _outcomes(chance, operation)
    fate = chance.random(count)
    unsent, gone = fate < never_sent, (fate >= never_sent) & (fate < never_sent + lost)
    outcome = np.where(unsent, "Unavailable", np.where(gone, "Lost", outcome))

    phases = _broker_phases(chance, operation)
    span = sum(phases.values(), np.zeros(count, np.int64))
    waiting, encoding, reading = (_lengths(chance, mean, count) for mean in (5_000, 15_000, 20_000))
    there, back = (LEAST_NETWORK + _lengths(chance, 30_000, count) for _ in range(2))
    response = waiting + encoding + reading + there + back + span
    start = begin_ns + _before(response + int(think_time_s * SECOND), clients)
    broker_start = start + waiting + encoding + there

    names = {
        "run": np.full(count, run),
        "client": np.char.add("alice-", (client + 1).astype(str)),
        "operation": operation,
        "outcome": outcome,
    }
    payload = chance.integers(50, 2000, count)
    messages = ((outcome == "ok") & (operation != "echo")).astype(np.int32)
    shared = {**names, "bytes": payload, "messages": messages}
    own = {"queue_ns": waiting, "encode_ns": encoding, "read_ns": reading}
    client_rows = _table(
        shared | _times(start, start, start + response) | own,
        tier="client", node=np.full(count, "load-1"), request=np.where(unsent, 0, request), batch=None,
    )  # fmt: skip
    broker_rows = _table(
        shared | _times(broker_start, broker_start, broker_start + span) | phases,
        tier="broker", node=np.char.add("broker-", (client % brokers + 1).astype(str)), request=request,
        batch=chance.integers(1, 32, count).astype(np.int32),
    )  # fmt: skip
    return pa.concat_tables([client_rows, broker_rows.filter(pa.array(~unsent & ~gone))]).unify_dictionaries()


def make_run(
    folder: Path,
    rows: pa.Table,
    *,
    run: str | None = None,
    experiment_name: str = "made",
    label: str = "single",
    levels: Mapping[str, Any] | None = None,
    repetition: int = 1,
    state: records.State = "done",
    valid: bool | None = True,
    warm_up: float = 0.0,
    cool_down: float = 0.0,
    clients: int = 10,
    brokers: int = 2,
    think_time_s: float = 0.001,
    design: DesignKind = "single",
    file_rows: int = 32_768,
    samples: bool = True,
) -> str:
    """Write a run folder of these rows; returns the run's id (that of the rows, unless told).

    The load is from the first start to the last end; the measured window is that without warm-up and cool-down.
    """
    begin, end = pc.min(rows["start_ns"]).as_py() or BEGIN, pc.max(rows["end_ns"]).as_py() or BEGIN + SECOND
    run = run or (rows["run"][0].as_py() if len(rows) else RUN)
    seconds = (end - begin) / SECOND
    text = EXPERIMENT.format(
        warm_up=warm_up, duration=max(seconds - warm_up - cool_down, 0.001), cool_down=cool_down, brokers=brokers,
        clients=clients, think_time=think_time_s,
    )  # fmt: skip
    settings = series_folder.settings(experiment_file.parse(text, folder=folder))
    record = RunRecord(
        id=run, experiment=experiment_name, label=label, levels=dict(levels or {}), repetition=repetition, seed=1,
        settings=settings, design=design, state=state, why=None if state == "done" else "it was made so",
        load=Window(begin, end) if state == "done" else None,
        window=Window(begin + int(warm_up * SECOND), end - int(cool_down * SECOND)) if state == "done" else None,
        verdict=None if valid is None else Verdict(valid, ["all checks hold" if valid else "a check does not hold"]),
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    records.write(folder / "run.json", record)
    write_traces(folder / "traces", rows, file_rows)
    if samples:
        write_samples(folder / "samples", begin, end, brokers)
    return run


def write_traces(folder: Path, rows: pa.Table, file_rows: int = 32_768) -> None:
    """Write the rows as the processes would: chunks of each node, and end reports."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = rows.group_by(["tier", "node"]).aggregate([]).to_pylist()
    for number, kind in enumerate(kinds):
        tier, node = kind["tier"], kind["node"]
        mine = rows.filter(pc.and_(pc.equal(rows["tier"], tier), pc.equal(rows["node"], node)))
        stem = f"{tier}-{node.replace('/', '-')}-{1000 + number}"
        for part, first in enumerate(range(0, len(mine), file_rows), 1):
            pq.write_table(mine.slice(first, file_rows), folder / f"{stem}-{part:05d}.parquet", **FORMAT)
        report = {"tier": tier, "node": node, "rows": len(mine), "dropped": 0, "why": None}
        (folder / f"{stem}.json").write_text(json.dumps(report))


def write_samples(folder: Path, begin_ns: int, end_ns: int, brokers: int = 2) -> None:
    """Write samples of each second: one queue that grows by a message, processes that use half a core."""
    folder.mkdir(parents=True, exist_ok=True)
    moments = np.arange(begin_ns, end_ns + 1, SECOND)
    seconds = np.arange(len(moments))
    lengths = {"at_ns": moments, "queue": ["q-1"] * len(moments), "messages": seconds}
    pq.write_table(pa.table(lengths), folder / "queues.parquet")
    counters = ("commits", "rollbacks", "blocks_read", "blocks_hit", "rows_inserted", "rows_deleted", "deadlocks",
                "wal_bytes", "dead_rows", "connections", "active")  # fmt: skip
    pq.write_table(pa.table({"at_ns": moments} | dict.fromkeys(counters, 10 * seconds)), folder / "database.parquet")
    processes = ["load-1", *(f"broker-{number}" for number in range(1, brokers + 1)), "database"]
    table = {
        "at_ns": np.repeat(moments, len(processes)),
        "host": ["local"] * len(moments) * len(processes),
        "process": processes * len(moments),
        "pid": np.tile(np.arange(len(processes)) + 1000, len(moments)),
        "cpu_seconds": np.repeat(0.5 * seconds, len(processes)),
        "resident_bytes": np.full(len(moments) * len(processes), 100_000_000),
        "processes": np.ones(len(moments) * len(processes), np.int64),
    }
    pq.write_table(pa.table(table), folder / "processes.parquet")
    machine = {"host": ["local"] * len(moments), "cpu_share": 0.5 + 0.0 * seconds, "memory_share": 0.25 + 0.0 * seconds}
    pq.write_table(pa.table({"at_ns": moments} | machine), folder / "machines.parquet")


def changed(rows: pa.Table, place: int, **values: Any) -> pa.Table:
    """The rows with one of them changed."""
    row = rows.slice(place, 1).to_pylist()[0] | values
    loose = pa.schema([field.with_nullable(True) for field in rows.schema])
    one = pa.Table.from_pylist([row], schema=loose)
    parts = [rows.slice(0, place).cast(loose), one, rows.slice(place + 1).cast(loose)]
    return pa.concat_tables(parts).unify_dictionaries()


def _outcomes(chance: np.random.Generator, operation: NDArray[np.str_]) -> NDArray[np.str_]:
    draw = chance.random(len(operation))
    failed = np.where((operation == "send") & (draw < 0.02), "Overloaded", "ok")
    return np.where((operation == "receive") & (draw < 0.1), "empty", failed)


def _broker_phases(chance: np.random.Generator, operation: NDArray[np.str_]) -> dict[str, Whole]:
    means = {"read_ns": 10_000, "decode_ns": 5_000, "queue_ns": 300_000, "database_ns": 800_000, "encode_ns": 8_000,
             "write_ns": 12_000}  # fmt: skip
    phases = {name: _lengths(chance, mean, len(operation)) for name, mean in means.items()}
    parked = np.where(operation == "receive", _lengths(chance, 400_000, len(operation)), 0)
    return {name: parked if name == "parked_ns" else phases[name] for name in PHASES}


def _lengths(chance: np.random.Generator, mean: int, count: int) -> Whole:
    return chance.exponential(mean, count).astype(np.int64)


def _before(lengths: Whole, clients: int) -> Whole:
    """When each begins, of those that follow one another at each client; the i-th is of client i modulo clients."""
    rounds = -(-len(lengths) // clients)
    whole = np.zeros(rounds * clients, np.int64)
    whole[: len(lengths)] = lengths
    per_client = whole.reshape(rounds, clients)
    begins: Whole = (np.cumsum(per_client, axis=0) - per_client).reshape(-1)[: len(lengths)]
    return begins


def _times(intended: Whole, start: Whole, end: Whole) -> dict[str, Whole]:
    return {"intended_ns": intended, "start_ns": start, "end_ns": end}


def _table(columns: Mapping[str, Any], **more: Any) -> pa.Table:
    given = {**columns, **more}
    count = len(given["start_ns"])
    arrays = [_column(field, given.get(field.name), count) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _column(field: pa.Field, values: Any, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, field.type)
    if isinstance(values, str):
        values = np.full(count, values)
    if pa.types.is_dictionary(field.type):
        return pa.array(values).dictionary_encode()
    return pa.array(values, type=field.type)
