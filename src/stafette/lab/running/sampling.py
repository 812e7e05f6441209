"""Samples once a second during the load: queue lengths and PostgreSQL's counters (also at its end), use of processes.

::

    samples/queues.parquet       at_ns, queue, messages
    samples/database.parquet     at_ns and PostgreSQL's counters
    samples/processes.parquet    at_ns, host, process, pid, cpu_seconds, resident_bytes, processes
    samples/machines.parquet     at_ns, host, cpu_share, memory_share
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from stafette.database.monitoring import Statistics
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.lab.hosts.host import Host

EVERY_SECONDS = 1.0
LARGEST_SHARE = 0.02
"""Counting long queues takes time. So that sampling does not change what is measured, a sample may take this share of
the time until the next; long queues are sampled less often."""

_QUEUES = pa.schema([("at_ns", pa.int64()), ("queue", pa.string()), ("messages", pa.int64())])
_DATABASE = pa.schema([("at_ns", pa.int64()), *((name, pa.int64()) for name in Statistics.__struct_fields__)])
_PROCESSES = pa.schema(
    [
        ("at_ns", pa.int64()),
        ("host", pa.string()),
        ("process", pa.string()),
        ("pid", pa.int64()),
        ("cpu_seconds", pa.float64()),
        ("resident_bytes", pa.int64()),
        ("processes", pa.int64()),
    ]
)
_MACHINES = pa.schema(
    [("at_ns", pa.int64()), ("host", pa.string()), ("cpu_share", pa.float64()), ("memory_share", pa.float64())]
)


class Samples:
    """The samples of one run."""

    def __init__(self) -> None:
        self._queues: list[tuple[int, str, int]] = []
        self._database: list[tuple[int, ...]] = []

    @contextlib.asynccontextmanager
    async def collect(self, store: Store) -> AsyncIterator[None]:
        """Sample the database during the block and once at its end, so that even a short load has a difference."""
        task = asyncio.create_task(self._sample_repeatedly(store))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._sample(store)

    async def _sample_repeatedly(self, store: Store) -> None:
        while True:
            began = time.perf_counter()
            await self._sample(store)
            took = time.perf_counter() - began
            await asyncio.sleep(max(EVERY_SECONDS - took, took / LARGEST_SHARE))

    async def _sample(self, store: Store) -> None:
        with contextlib.suppress(StafetteError):  # some experiments pause the database
            now = time.time_ns()
            self._database.append((now, *msgspec.structs.astuple(await store.monitoring.statistics())))
            self._queues += [(now, queue, length) for queue, length in (await store.monitoring.queue_lengths()).items()]

    def write(self, folder: Path, hosts: Sequence[Host]) -> None:
        """Write these samples, and those of the agents on the hosts."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "queues.parquet", _QUEUES, self._queues)
        _write(folder / "database.parquet", _DATABASE, self._database)
        costs = [
            (sample.at_ns, host.name, cost.name, cost.pid, cost.cpu_seconds, cost.resident_bytes, cost.processes)
            for host in hosts
            for sample in host.samples
            for cost in sample.costs
        ]
        _write(folder / "processes.parquet", _PROCESSES, costs)
        machines = [
            (sample.at_ns, host.name, sample.machine_cpu_share, sample.machine_memory_share)
            for host in hosts
            for sample in host.samples
        ]
        _write(folder / "machines.parquet", _MACHINES, machines)


def _write(path: Path, schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
