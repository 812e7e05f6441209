"""What it costs that a lost answer to a receive can be had again: the same load with and without it, in turns.

    python -m bench.replay [--seconds 6] [--rounds 6]

A client that shows no session number in its hello gets answers that are not kept. 64 clients send and receive in a
loop, all of the one kind or of the other; medians of the rounds' ratios count, because shared machines are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from unittest import mock

import uvloop
from rich.console import Console
from rich.table import Table

import stafette
from bench.broker import URL, cpu_seconds, database_seconds, system
from stafette.client.aio import Client
from stafette.database.embedded import EmbeddedPostgres

CLIENTS = 64
QUEUES = 20
BODY = b"x" * 200
MEASURES = ("requests/s", "broker, µs per request", "database, µs per request")


async def connect(stack: AsyncExitStack, kind: str) -> list[Client]:
    """The clients of one kind; `failover` draws a session number of 1 + randbits, and 0 is none."""
    none = mock.patch("stafette.client.failover.secrets.randbits", return_value=-1)
    with none if kind == "not kept" else contextlib.nullcontext():
        return [
            await stack.enter_async_context(await stafette.aio.connect(URL, name=f"{kind} {number}"))
            for number in range(CLIENTS)
        ]


async def requests_in(clients: Sequence[Client], seconds: float) -> int:
    """How many requests all clients together were answered."""
    count = 0
    end = time.perf_counter() + seconds

    async def loop(client: Client, number: int) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await client.send(f"load-{number % QUEUES}", BODY)
            await client.receive(f"load-{number % QUEUES}")
            count += 2

    await asyncio.gather(*(loop(client, number) for number, client in enumerate(clients)))
    return count


async def measure(
    broker: int, server: EmbeddedPostgres, seconds: float, rounds: int
) -> dict[str, list[tuple[float, ...]]]:
    """The measures of each round, by kind."""
    results: dict[str, list[tuple[float, ...]]] = {"kept": [], "not kept": []}
    async with AsyncExitStack() as stack:
        clients = {kind: await connect(stack, kind) for kind in results}
        for number in range(QUEUES):
            await clients["kept"][0].create_queue(f"load-{number}")
        for kind in results:
            await requests_in(clients[kind], 2.0)  # warm-up
        for turn in range(rounds):
            for kind in results if turn % 2 else reversed(results):
                before = cpu_seconds(broker), database_seconds(server)
                count = await requests_in(clients[kind], seconds)
                after = cpu_seconds(broker), database_seconds(server)
                spent = [end - begin for begin, end in zip(before, after, strict=True)]
                results[kind].append((count / seconds, *(1e6 * each / count for each in spent)))
    return results


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replay")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=6, help="of each kind")
    options = parser.parse_args(arguments)
    with system() as (server, broker):
        results = uvloop.run(measure(broker, server, options.seconds, options.rounds))
    table = Table(f"{CLIENTS} clients", "answers kept", "not kept", "ratio")
    columns = [list(zip(*results[kind], strict=True)) for kind in ("kept", "not kept")]
    for name, kept, without in zip(MEASURES, *columns, strict=True):
        ratios = [one / other for one, other in zip(kept, without, strict=True)]
        table.add_row(
            name,
            f"{statistics.median(kept):,.1f}",
            f"{statistics.median(without):,.1f}",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
