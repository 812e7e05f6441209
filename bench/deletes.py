"""Measures what others notice while a queue of many messages is deleted, one is purged, and upkeep deletes their rows.

python -m bench.deletes [--messages N]

32 clients send and receive all the time. Requests in a closed loop that stands still are few, so each of our calls has
a window of its own: the requests that were under way while it was, and for a second at least.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import asyncpg
import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

import stafette
from bench.broker import URL, system
from stafette.client.aio import Client
from stafette.database.embedded import EmbeddedPostgres

CLIENTS = 32
QUEUES = 20
BODY = b"x" * 200
BEFORE_SECONDS = 10.0
UPKEEP_SECONDS = 20.0
"""How long to look at others while rows are deleted; with very many rows that goes on for longer."""
TARGET = 3.0

FILL = """
INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)
SELECT nextval('stafette.message_id'), q.store_id, 0, q.creator_id, n % 10, 0, now(), $1::bytea
FROM stafette.queues AS q, generate_series(1, $2::integer) AS n WHERE q.name = $3
"""
START_UPKEEP = "UPDATE stafette.discarded SET at = at - interval '1 minute'"


@dataclass
class Load:
    """Clients that send and receive in a loop, and when each request began and ended."""

    times: list[tuple[float, float]] = field(default_factory=list)

    async def client(self, client: Client, number: int) -> None:
        queue = f"load-{number % QUEUES}"
        requests = (lambda: client.send(queue, BODY), lambda: client.receive(queue))
        while True:
            for request in requests:
                began = time.perf_counter()
                await request()
                self.times.append((began, time.perf_counter()))

    def during(self, began: float, ended: float) -> tuple[float, float]:
        """p99 and maximum, in milliseconds, of the requests under way in a window."""
        times = np.array(self.times)
        seconds = (times[:, 1] - times[:, 0])[(times[:, 1] >= began) & (times[:, 0] <= ended)]
        return float(np.quantile(seconds, 0.99)) * 1000, float(seconds.max()) * 1000


@dataclass(frozen=True)
class Window:
    """What others noticed during one of our calls."""

    name: str
    seconds: float
    p99_ms: float
    max_ms: float


async def fill(connection: asyncpg.Connection[asyncpg.Record], messages: int, *queues: str) -> None:
    for queue in queues:
        await connection.execute(FILL, BODY, messages, queue)
    await connection.execute("VACUUM ANALYZE stafette.ready")
    await connection.execute("CHECKPOINT")


async def measure(server: EmbeddedPostgres, messages: int) -> list[Window]:
    load = Load()
    spans: list[tuple[str, float, float, float]] = []

    async def observe(name: str, work: Awaitable[object], at_least: float = 1.0) -> None:
        began = time.perf_counter()
        await work
        seconds = time.perf_counter() - began
        await asyncio.sleep(max(0.0, at_least - seconds))
        spans.append((name, seconds, began, time.perf_counter()))

    async with AsyncExitStack() as stack:
        operator = await stack.enter_async_context(await stafette.aio.connect(URL, name="operator", timeout=60.0))
        for queue in ("delete", "purge", *(f"load-{number}" for number in range(QUEUES))):
            await operator.create_queue(queue)
        connection = await asyncpg.connect(server.url, command_timeout=3600)
        await fill(connection, messages, "delete", "purge")
        clients = [
            await stack.enter_async_context(await stafette.aio.connect(URL, name=f"client-{number}", timeout=60.0))
            for number in range(CLIENTS)
        ]
        tasks = [asyncio.create_task(load.client(client, number)) for number, client in enumerate(clients)]
        await asyncio.sleep(3.0)  # warm-up
        await observe("nothing else happens", asyncio.sleep(BEFORE_SECONDS))
        await observe("a queue is deleted", operator.delete_queue("delete", force=True))
        await observe("a queue is purged", purge(operator, messages))
        await connection.execute(START_UPKEEP)
        await observe("upkeep deletes rows", deleted(connection), UPKEEP_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await connection.close()
    return [Window(name, seconds, *load.during(began, ended)) for name, seconds, began, ended in spans]


async def purge(operator: Client, messages: int) -> None:
    if await operator.purge("purge") != messages:
        raise RuntimeError("purge returned another number of messages than there were")


async def deleted(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until nothing is left to be deleted, for UPKEEP_SECONDS at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UPKEEP_SECONDS):
            while await connection.fetchval("SELECT count(*), pg_sleep(0.5) FROM stafette.discarded"):
                pass


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.deletes")
    parser.add_argument("--messages", type=int, default=1_000_000, help="in each of the two queues")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with system() as (server, _broker):
        windows = uvloop.run(measure(server, options.messages))
    before = windows[0]
    if options.json:
        rows = {
            window.name: {
                "seconds": window.seconds,
                "p99_ms": window.p99_ms,
                "max_ms": window.max_ms,
                "ratio": window.p99_ms / before.p99_ms,
            }
            for window in windows
        }
        print(json.dumps(rows))
        return
    table = Table(
        f"{options.messages:,} messages in each queue, {CLIENTS} others", "it took", "p99", "longest", "ratio"
    )
    for window in windows:
        ratio = f"{window.p99_ms / before.p99_ms:.2f} (< {TARGET:g})" if window is not before else ""
        table.add_row(
            window.name, f"{window.seconds:.2f} s", f"{window.p99_ms:.1f} ms", f"{window.max_ms:.1f} ms", ratio
        )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
