"""Traces: one record per request and tier, and the writer that both tiers use.

A record is packed into a buffer, which costs the request under a microsecond. A buffer that is full, or some seconds
old, goes to a thread that writes it as a Parquet file and renames that into place once it is whole: whoever lists the
folder sees closed files only. When the disk cannot keep up, records are dropped rather than requests delayed; they are
counted, and the end report tells::

    TIER-NODE-PID-00001.parquet …    closed chunks
    TIER-NODE-PID.json               the end report: rows written, rows dropped and why

Times come from one monotonic clock and are turned into nanoseconds since the epoch when they are written. A row is one
request on its way through one tier; ``client`` and ``request`` together name it in both. Where several machines write
a trace, each is told how far its clock is ahead of the one that all times are to be of.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import struct
import threading
import time
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

log = logging.getLogger(__name__)

Tier = Literal["client", "broker"]

CHUNK_ROWS = 32_768
CHUNK_SECONDS = 5.0
"""A chunk is closed when it is full, or by the first record that comes so long after it was begun."""

WAITING_CHUNKS = 32
"""How many chunks may wait for the disk, a million rows, before further ones are dropped."""

NAMES = ("run", "tier", "node", "client", "operation", "outcome")
TIMES = ("intended_ns", "start_ns", "end_ns")
PHASES = ("read_ns", "decode_ns", "queue_ns", "database_ns", "parked_ns", "encode_ns", "write_ns")

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("run", _NAME, nullable=False),
        pa.field("tier", _NAME, nullable=False),
        pa.field("node", _NAME, nullable=False),
        pa.field("client", _NAME, nullable=False),
        pa.field("request", pa.int64(), nullable=False),
        pa.field("operation", _NAME, nullable=False),
        pa.field("outcome", _NAME, nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in TIMES),
        *(pa.field(name, pa.int64()) for name in PHASES),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("messages", pa.int32(), nullable=False),
        pa.field("batch", pa.int32()),
    ]
)

_NUMBERS = [field.name for field in SCHEMA if field.name not in NAMES]
FORMAT = {
    "compression": "none",
    "use_dictionary": list(NAMES),
    "column_encoding": dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
    "write_statistics": False,
}
"""Neighbours differ by little: a row so written has 23 bytes and costs 0.16 µs, against 49 and 0.4 with snappy."""

NOT_HERE = -1
"""Stands for a phase, or a batch, that the tier does not have."""

# A record in the buffer: everything but what is the same for the whole process.
_PACKED = ("client", "request", "operation", "outcome", *TIMES, *PHASES, "bytes", "messages", "batch")
_RECORD = struct.Struct(f"<{len(_PACKED)}q")


class EndReport(msgspec.Struct):
    """What a process says of its trace when it ends."""

    tier: str
    node: str
    rows: int
    dropped: int
    why: str | None = None


class _Codes(dict[str, int]):
    """Numbers names in the order in which they are first used."""

    def __missing__(self, name: str) -> int:
        code = self[name] = len(self)
        return code


class Trace:
    """The records of one process in one tier. Add to it from one thread; close it at the end."""

    def __init__(self, folder: Path, *, run: str, tier: Tier, node: str, ahead_ns: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.why: str | None = None
        """Why the first rows were dropped, if any were."""
        self._taken = 0
        self._overflowed = 0
        self._unwritten = 0
        self._same = {"run": run, "tier": tier, "node": node}
        self._folder = folder
        self._stem = f"{tier}-{re.sub(r'[^A-Za-z0-9.-]', '_', node)}-{os.getpid()}"
        self._epoch = time.time_ns() - time.perf_counter_ns() - ahead_ns
        self._codes = {name: _Codes() for name in ("client", "operation", "outcome")}
        self._clients, self._operations, self._outcomes = self._codes.values()
        self._buffer = bytearray(_RECORD.size * CHUNK_ROWS)
        self._end = 0
        self._close_at = 0
        self._waiting: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._files = 0
        self._writer = threading.Thread(target=self._write_chunks, name="trace writer", daemon=True)
        self._writer.start()

    @property
    def dropped(self) -> int:
        """Records that will not be found in the files."""
        return self._overflowed + self._unwritten

    @property
    def rows(self) -> int:
        """Records added so far, those dropped left out."""
        return self._taken + self._end // _RECORD.size - self.dropped

    def add(
        self,
        client: str,
        request: int,
        operation: str,
        outcome: str,
        intended: int,
        start: int,
        end: int,
        read: int,
        decode: int,
        in_queue: int,
        database: int,
        parked: int,
        encode: int,
        write: int,
        payload: int,
        messages: int,
        batch: int,
    ) -> None:
        """Record a request that has its answer. Times are of ``time.perf_counter_ns``, phases lengths of time."""
        if end >= self._close_at or self._end == len(self._buffer):
            self._hand_over(end)
        _RECORD.pack_into(
            self._buffer, self._end, self._clients[client], request, self._operations[operation],
            self._outcomes[outcome], intended, start, end, read, decode, in_queue, database, parked, encode, write,
            payload, messages, batch,
        )  # fmt: skip
        self._end += _RECORD.size

    def close(self) -> None:
        """Write what is left, and the end report."""
        self._hand_over(0)
        self._waiting.put(None)
        self._writer.join()
        report = EndReport(self._same["tier"], self._same["node"], self.rows, self.dropped, self.why)
        _put(self._folder / f"{self._stem}.json", msgspec.json.encode(report))

    def _hand_over(self, now: int) -> None:
        """Give the chunk to the writer, or drop it when too many wait."""
        self._close_at = now + int(CHUNK_SECONDS * 1e9)
        if not self._end:
            return
        self._taken += self._end // _RECORD.size
        if self._waiting.qsize() < WAITING_CHUNKS:
            self._waiting.put(self._buffer[: self._end])
        else:
            self._overflowed += self._end // _RECORD.size
            self._warn("the disk did not keep up")
        self._end = 0

    def _warn(self, why: str) -> None:
        if self.why is None:
            log.warning("the trace of %s is not complete: %s", self._same["node"], why)
            self.why = why

    # The writer's thread

    def _write_chunks(self) -> None:
        while (chunk := self._waiting.get()) is not None:
            self._files += 1
            path = self._folder / f"{self._stem}-{self._files:05d}.parquet"
            unfinished = path.with_suffix(".tmp")
            try:
                pq.write_table(self._table(chunk), unfinished, **FORMAT)
                unfinished.rename(path)
            except (OSError, pa.ArrowException) as error:
                self._unwritten += len(chunk) // _RECORD.size
                self._warn(f"{path.name} could not be written: {error}")
                unfinished.unlink(missing_ok=True)

    def _table(self, chunk: bytearray) -> pa.Table:
        numbers = np.frombuffer(chunk, dtype="<i8").reshape(-1, len(_PACKED)).T.copy()
        packed = dict(zip(_PACKED, numbers, strict=True))
        rows = numbers.shape[1]
        return pa.Table.from_arrays([self._column(field, packed, rows) for field in SCHEMA], schema=SCHEMA)

    def _column(self, field: pa.Field, packed: dict[str, np.ndarray], rows: int) -> pa.Array:
        name = field.name
        if name in self._same:
            return pa.DictionaryArray.from_arrays(_array(np.zeros(rows), pa.int32()), _texts([self._same[name]]))
        if name in self._codes:
            return pa.DictionaryArray.from_arrays(_array(packed[name], pa.int32()), _texts(list(self._codes[name])))
        if name in TIMES:
            return _array(packed[name] + self._epoch, field.type)
        if field.nullable:
            return _array(packed[name], field.type, packed[name] != NOT_HERE)
        return _array(packed[name], field.type)


# Arrow's usual ways from Python's and numpy's values import pandas, where that is installed: a second of work, at the
# first chunk, in the middle of a load. Buffers need no such help.


def _array(values: np.ndarray, kind: pa.DataType, valid: np.ndarray | None = None) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()))
    present = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [present, data])


def _texts(texts: list[str]) -> pa.Array:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _put(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(content)
    unfinished.rename(path)
