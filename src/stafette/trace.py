"""Traces: one record per request and tier, and the writer that both tiers use.

A record is packed into a buffer, which costs the request under a microsecond. A buffer that is full, or some seconds
old, goes to a thread that writes it as a Parquet file and renames it when it is complete, so a reader of the folder
sees closed files only. If the disk cannot keep up, records are dropped rather than requests delayed. They are counted
in the end report::

    TIER-NODE-PID-00001.parquet …    closed chunks
    TIER-NODE-PID.json               the end report: rows written, rows dropped and why

Times come from one monotonic clock and are converted to nanoseconds since the epoch when they are written. A row is one
request in one tier; ``client`` and ``request`` together identify it in both. If several machines write a trace, each is
told how far its clock is ahead of the reference clock (`ahead_ns`).
"""

from __future__ import annotations

import logging
import os
import queue
import re
import struct
import threading
import time
import warnings
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stafette.files import write_atomically

log = logging.getLogger(__name__)

Tier = Literal["client", "broker"]

CHUNK_ROWS = 32_768
CHUNK_SECONDS = 5.0
"""A chunk is closed when it is full, or by the first record this long after its start."""

MAX_WAITING_CHUNKS = 32
"""Chunks that may wait for the disk, a million rows, before further ones are dropped."""

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
"""Neighbouring rows differ little: with delta encoding a row takes 23 bytes and 0.16 µs, with snappy 49 and 0.4."""

NOT_APPLICABLE = -1
"""For a phase, or a batch, that the tier does not have."""

# A record in the buffer: all columns that are not the same for the whole process.
_PACKED = ("client", "request", "operation", "outcome", *TIMES, *PHASES, "bytes", "messages", "batch")
_RECORD = struct.Struct(f"<{len(_PACKED)}q")


class EndReport(msgspec.Struct):
    """How much of its trace a process has written, at its end."""

    tier: str
    node: str
    rows: int
    dropped: int
    why: str | None = None


class _Codes(dict[str, int]):
    """Codes for names, in the order of first use."""

    def __missing__(self, name: str) -> int:
        code = self[name] = len(self)
        return code


class Trace:
    """The records of one process in one tier. Add records from one thread; close it at the end."""

    def __init__(self, folder: Path, *, run: str, tier: Tier, node: str, ahead_ns: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.drop_reason: str | None = None
        """Why the first rows were dropped, if any were."""
        self._handed_over = 0
        self._overflowed = 0
        self._unwritten = 0
        self._constants = {"run": run, "tier": tier, "node": node}
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
    def why(self) -> str | None:
        """The name that `drop_reason` had before; it works for one more version."""
        warnings.warn("Trace.why is now Trace.drop_reason", DeprecationWarning, stacklevel=2)
        return self.drop_reason

    @property
    def dropped(self) -> int:
        """Records that are not in the files."""
        return self._overflowed + self._unwritten

    @property
    def rows(self) -> int:
        """Records added so far, without those dropped."""
        return self._handed_over + self._end // _RECORD.size - self.dropped

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
        """Record an answered request. Times are from ``time.perf_counter_ns``, phases are durations."""
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
        report = EndReport(self._constants["tier"], self._constants["node"], self.rows, self.dropped, self.drop_reason)
        write_atomically(self._folder / f"{self._stem}.json", msgspec.json.encode(report))

    def _hand_over(self, now: int) -> None:
        """Give the chunk to the writer, or drop it if too many wait."""
        self._close_at = now + int(CHUNK_SECONDS * 1e9)
        if not self._end:
            return
        self._handed_over += self._end // _RECORD.size
        if self._waiting.qsize() < MAX_WAITING_CHUNKS:
            self._waiting.put(self._buffer[: self._end])
        else:
            self._overflowed += self._end // _RECORD.size
            self._warn("the disk did not keep up")
        self._end = 0

    def _warn(self, reason: str) -> None:
        if self.drop_reason is None:
            log.warning("the trace of %s is not complete: %s", self._constants["node"], reason)
            self.drop_reason = reason

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
        if name in self._constants:
            return pa.DictionaryArray.from_arrays(_array(np.zeros(rows), pa.int32()), _texts([self._constants[name]]))
        if name in self._codes:
            return pa.DictionaryArray.from_arrays(_array(packed[name], pa.int32()), _texts(list(self._codes[name])))
        if name in TIMES:
            return _array(packed[name] + self._epoch, field.type)
        if field.nullable:
            return _array(packed[name], field.type, packed[name] != NOT_APPLICABLE)
        return _array(packed[name], field.type)


# Arrow's usual conversions from Python and numpy import pandas if it is installed. That takes a second, at the first
# chunk, in the middle of a load. Conversions from buffers do not.


def _array(values: np.ndarray, kind: pa.DataType, not_null: np.ndarray | None = None) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()))
    validity = None if not_null is None else pa.py_buffer(np.packbits(not_null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, data])


def _texts(texts: list[str]) -> pa.Array:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)
