"""Made-up input for the bench of the pipeline: run folders as the laboratory writes them, a CSV, and logs of mlmq.

Of the requests of a run a few were never sent, a few were lost before a broker saw them, and of a few the client has no
row. The phases of a broker are its whole span; a client's response time is its own phases, the network and that span.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stafette import trace
from stafette.runs.window import SECOND, Window

BEGIN = 1_700_000_000 * SECOND
NAME = "bench-0001"
CLIENTS, THINK_TIME_S = 64, 0.001
WARM_UP, COOL_DOWN = 0.1, 0.05
"""Shares of the load."""
OPERATIONS = ("send", "receive")
OUTCOMES = ("ok", "empty", "Overloaded", "Unavailable", "Lost")
OK, EMPTY, OVERLOADED, UNAVAILABLE, LOST = range(5)
CLIENT_PHASES = {"queue_ns": 5_000, "encode_ns": 15_000, "read_ns": 20_000}
BROKER_PHASES = {
    "read_ns": 10_000, "decode_ns": 5_000, "queue_ns": 300_000, "database_ns": 800_000, "parked_ns": 400_000,
    "encode_ns": 8_000, "write_ns": 12_000,
}  # fmt: skip
"""Means. Only reads are parked."""
RARE = 0.0002
"""The share of requests that were never sent; of those that were lost; of those without the client's row."""

CSV_MAPPING = """
unit = "ms"
[columns]
start = "begin"
duration = "took"
operation = "operation"
outcome = "outcome"
request = "request"
"""
MLMQ_HEADER = "BrokerConfiguration Scenario[SimpleShutdownBroker] Port[8099] WorkerThreadCount[4]"

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Size:
    """The size of the input."""

    rows: int
    """The rows of all traces, of clients and brokers together."""
    runs: int
    seconds: int
    """The load of each run."""

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return f"traces-{self.rows}-{self.runs}-{self.seconds}"


def traces(work: Path, size: Size) -> Path:
    """The folder with the runs; it is made unless it exists and is complete."""
    folder = work / size.folder
    complete = folder.with_suffix(".complete")
    if not complete.exists():
        for number in range(1, size.runs + 1):
            requests = size.rows // 2 // size.runs
            make_run(folder / NAME / "runs" / run_name(number), number, requests, size.seconds)
        complete.touch()
    return folder


def run_name(number: int) -> str:
    """The name of a run's folder."""
    return f"{number:03d}-clients={number}-r1"


def make_run(folder: Path, number: int, requests: int, seconds: int) -> None:
    """Write one run of so many requests."""
    begin = BEGIN + number * 100_000 * SECOND
    load = Window(begin, begin + seconds * SECOND)
    measured = Window(begin + round(WARM_UP * seconds * SECOND), load.end_ns - round(COOL_DOWN * seconds * SECOND))
    run = f"{NAME}/{run_name(number)}"
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(number)
    files = {tier: _TraceFiles(folder / "traces", tier) for tier in ("client", "broker")}
    for first in range(0, requests, trace.CHUNK_ROWS):
        count = min(trace.CHUNK_ROWS, requests - first)
        until = min(first + count, requests)
        part = Window(*(begin + index * seconds * SECOND // requests for index in (first, until)))
        for tier, table in _chunk(rng, run, part, first, count):
            files[tier].add(table)
    for tier_files in files.values():
        tier_files.close()
    _samples(folder / "samples", load)
    (folder / "run.json").write_text(json.dumps(_record(run, number, load, measured)))


class _TraceFiles:
    """The files of one process: each has as many rows as a chunk of the laboratory, but for the last."""

    def __init__(self, folder: Path, tier: str) -> None:
        self._folder, self._tier = folder, tier
        self._buffer = trace.SCHEMA.empty_table()
        self._files = self._rows = 0

    def add(self, rows: pa.Table) -> None:
        self._buffer = pa.concat_tables([self._buffer, rows])
        while len(self._buffer) >= trace.CHUNK_ROWS:
            self._write(self._buffer.slice(0, trace.CHUNK_ROWS))
            self._buffer = self._buffer.slice(trace.CHUNK_ROWS)

    def close(self) -> None:
        if len(self._buffer):
            self._write(self._buffer)
        report = {"tier": self._tier, "node": f"{self._tier}-1", "rows": self._rows, "dropped": 0, "why": None}
        (self._folder / f"{self._tier}-{self._tier}-1-1.json").write_text(json.dumps(report))

    def _write(self, rows: pa.Table) -> None:
        self._files += 1
        self._rows += len(rows)
        path = self._folder / f"{self._tier}-{self._tier}-1-1-{self._files:05d}.parquet"
        pq.write_table(rows.unify_dictionaries().combine_chunks(), path, **trace.FORMAT)


def _chunk(rng: np.random.Generator, run: str, part: Window, first: int, count: int) -> Iterator[tuple[str, pa.Table]]:
    """The rows of both tiers for so many requests that began in a part of the load."""
    start = np.sort(rng.integers(part.start_ns, part.end_ns, count))
    operation = rng.integers(0, 2, count)
    fate = rng.random(count)
    failed = np.where((operation == 0) & (rng.random(count) < 0.02), OVERLOADED, OK)
    outcome = np.where((operation == 1) & (rng.random(count) < 0.1), EMPTY, failed)
    unsent, lost, clientless = fate < RARE, (fate >= RARE) & (fate < 2 * RARE), fate > 1 - RARE
    outcome = np.where(unsent, UNAVAILABLE, np.where(lost, LOST, outcome))
    own = {name: _lengths(rng, mean, count) for name, mean in CLIENT_PHASES.items()}
    phases = {name: _lengths(rng, mean, count) for name, mean in BROKER_PHASES.items()}
    phases["parked_ns"] = phases["parked_ns"] * operation
    span, client_span = (np.sum(list(parts.values()), axis=0) for parts in (phases, own))
    to_broker, to_client = (20_000 + _lengths(rng, 30_000, count) for _ in range(2))
    broker_start = start + own["queue_ns"] + own["encode_ns"] + to_broker
    request = np.arange(first, first + count)
    codes = {"client": request % CLIENTS, "operation": operation, "outcome": outcome}
    numbers = {"bytes": rng.integers(50, 2000, count), "messages": (outcome == OK).astype(np.int64)}
    number = request // CLIENTS + 1
    client = _table(
        run, "client", codes, numbers | own | {"request": np.where(unsent, 0, number)} |
        _times(start, start + client_span + to_broker + to_client + span),
    )  # fmt: skip
    broker = _table(
        run, "broker", codes, numbers | phases | {"request": number, "batch": rng.integers(1, 32, count)} |
        _times(broker_start, broker_start + span),
    )  # fmt: skip
    yield "client", client.filter(pa.array(~clientless))
    yield "broker", broker.filter(pa.array(~(unsent | lost)))


def _lengths(rng: np.random.Generator, mean: int, count: int) -> Integers:
    return rng.exponential(mean, count).astype(np.int64)


def _times(start: Integers, end: Integers) -> dict[str, Integers]:
    return {"intended_ns": start, "start_ns": start, "end_ns": end}


def _table(run: str, tier: str, codes: dict[str, Integers], numbers: dict[str, Integers]) -> pa.Table:
    count = len(numbers["bytes"])
    texts = {"client": [f"alice-{number}" for number in range(1, CLIENTS + 1)], "operation": OPERATIONS,
             "outcome": OUTCOMES}  # fmt: skip
    constants = {"run": run, "tier": tier, "node": f"{tier}-1"}
    names = {name: (codes[name], texts[name]) for name in codes}
    names |= {name: (np.zeros(count, np.int64), [text]) for name, text in constants.items()}

    def column(field: pa.Field) -> pa.Array:
        if field.name in names:
            indexes, words = names[field.name]
            return pa.DictionaryArray.from_arrays(pa.array(indexes.astype(np.int32)), pa.array(words))
        return pa.array(numbers[field.name], field.type) if field.name in numbers else pa.nulls(count, field.type)

    return pa.Table.from_arrays([column(field) for field in trace.SCHEMA], schema=trace.SCHEMA)


def _record(run: str, number: int, load: Window, measured: Window) -> dict[str, Any]:
    windows = {name: {"start_ns": span.start_ns, "end_ns": span.end_ns} for name, span in
               (("load", load), ("window", measured))}  # fmt: skip
    return {
        "format": 1, "id": run, "experiment": NAME, "label": f"clients={number}", "levels": {"clients": number},
        "repetition": 1, "seed": 1, "state": "done", **windows,
        "verdict": {"valid": True, "sentences": ["made up"]},
        "settings": {"design": {"kind": "sweep"}, "system": {"brokers": 1},
                     "clients": {"alice": {"count": CLIENTS, "think_time": THINK_TIME_S}}},
    }  # fmt: skip


def _samples(folder: Path, load: Window) -> None:
    folder.mkdir(exist_ok=True)
    moments = np.arange(load.start_ns, load.end_ns + 1, SECOND)
    seconds = np.arange(len(moments))
    queues = {"at_ns": moments, "queue": ["q-1"] * len(moments), "messages": seconds}
    processes = {
        "at_ns": moments, "host": ["local"] * len(moments), "process": ["broker-1"] * len(moments),
        "pid": seconds * 0 + 1, "cpu_seconds": 0.5 * seconds, "resident_bytes": seconds * 0 + 10**8,
        "processes": seconds * 0 + 1,
    }  # fmt: skip
    for name, columns in (("queues", queues), ("processes", processes)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def make_csv(folder: Path, rows: int) -> Path:
    """Write a CSV of so many rows, and the file that maps its columns; returns that file."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    begins = BEGIN // 1_000_000 + np.sort(rng.integers(0, 60_000, rows))
    took = rng.exponential(5, rows).round(3) + 0.001
    lines = ["begin,took,operation,outcome,request"]
    lines += [
        f"{begin},{duration:.3f},{OPERATIONS[number % 2]},{OUTCOMES[OK if number % 50 else OVERLOADED]},{number + 1}"
        for number, (begin, duration) in enumerate(zip(begins.tolist(), took.tolist(), strict=True))
    ]
    (folder / "requests.csv").write_text("\n".join(lines) + "\n")
    mapping = folder.with_suffix(".toml")
    mapping.write_text(CSV_MAPPING)
    return mapping


def make_mlmq_logs(folder: Path, lines: int, files: int) -> None:
    """Write logs of mlmq in nested folders, most of brokers, as its experiments left them."""
    rng = np.random.default_rng(1)
    for number in range(files):
        of_client = number % 5 != 0
        path = (
            folder / f"test {number % 4}" / ("clients" if of_client else "brokers") / f"machine-{number}" / "perf.log"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        count = lines // files + (number < lines % files) - 1  # and its first line
        took = rng.exponential(20, count).astype(np.int64).tolist()
        moments = (BEGIN // 1_000_000 + np.sort(rng.integers(0, 120_000, count))).tolist()
        actions = _CLIENT_ACTIONS if of_client else _BROKER_ACTIONS
        indexes = rng.integers(0, len(actions), count).tolist()
        rows = [f"{duration};{at};{actions[index]}" for duration, at, index in zip(took, moments, indexes, strict=True)]
        path.write_text("\n".join([MLMQ_HEADER, *rows]) + "\n")


_CLIENT_ACTIONS = (
    "CSndReq#OK#SendMessageRequest:SendMessageResponse;", "CSndReq#OK#DequeueMessageRequest:MessageResponse;",
    "CSndReq#OK#QueuesWithPendingMessagesRequest:QueuesWithPendingMessagesResponse;",
    "CSndReq#Error#Timeout#SendMessageRequest:Null;",
)  # fmt: skip
_BROKER_ACTIONS = (
    "BRcvReq;C[9]", "BProcReq#SendMessageRequest:SendMessageResponse;C[10]",
    "BProcReq#DequeueMessageRequest:MessageResponse;C[10]", "BDb#sendMessage;C[10]", "BDb#dequeueMessage#Ok#1;C[10]",
    "BDb#dequeueMessage#Ok#0;C[10]", "BSndResp;C[10]", "BTotReqResp;C[10]",
)  # fmt: skip
