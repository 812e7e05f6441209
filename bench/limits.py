"""Measures a broker at its limits: thousands of idle clients, waiting reads, four times its maximum load.

python -m bench.limits
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

import stafette
from bench.broker import URL, another_broker, system, through_broker
from stafette.client.aio import Client

IDLE_CLIENTS = 5_000
ROUNDS = 300
OVERLOAD = 4


def resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


async def with_idle_clients(measure: Callable[[], Awaitable[None]]) -> None:
    """Call `measure` while thousands of idle clients are connected."""
    connecting = asyncio.Semaphore(50)

    async def idle(number: int) -> Client:
        async with connecting:
            return await stafette.aio.connect(URL, name=f"idle-{number}", timeout=60.0)

    clients = await asyncio.gather(*(idle(number) for number in range(IDLE_CLIENTS)))
    await measure()
    for start in range(0, IDLE_CLIENTS, 500):
        await asyncio.gather(*(client.close() for client in clients[start : start + 500]))


def measure_idle_clients(broker: int, table: Table) -> None:
    """Memory per idle client, and how they slow down other clients."""
    through_broker(2, 64)
    before = resident_kib(broker)
    p99_with_idle: list[float] = []
    after = 0

    async def measure() -> None:
        nonlocal after
        after = resident_kib(broker)
        for _ in range(3):
            result = await asyncio.to_thread(through_broker, 4, 64)
            p99_with_idle.append(result["p99_ms"])

    p99_alone = [through_broker(4, 64)["p99_ms"] for _ in range(3)]
    uvloop.run(with_idle_clients(measure))
    table.add_row(
        f"{IDLE_CLIENTS:,} idle clients: broker memory for each", f"{(after - before) / IDLE_CLIENTS:.1f} KiB", "< 20"
    )
    ratio = statistics.median(p99_with_idle) / statistics.median(p99_alone)
    table.add_row("… p99 of 64 other clients, with / without them", f"{ratio:.2f}", "0.8 to 1.2")


async def wake_up_ms(reader_url: str) -> float:
    """Median milliseconds from a send until a waiting read has the message."""
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(await stafette.aio.connect(URL, name="sender"))
        reader = await stack.enter_async_context(await stafette.aio.connect(reader_url, name="reader"))
        await sender.create_queue("wake", exist_ok=True)
        durations = []
        for _ in range(ROUNDS):
            read = asyncio.create_task(reader.receive("wake", wait=60.0))
            await reader.ping()
            await reader.ping()  # by now the read found nothing and waits, or soon will
            started = time.perf_counter()
            await sender.send("wake", b"now")
            assert await read is not None
            durations.append(time.perf_counter() - started)
        return 1000 * statistics.median(durations)


def measure_overload(broker: int, table: Table) -> None:
    """An open loop with four times the peak rate; each request goes to 20 queues, so the database is the limit."""
    options = ("--mix", "broadcast:1", "--size", "200")
    peak = through_broker(6, 256, *options)["requests_per_second"]
    before = resident_kib(broker)
    overloaded = through_broker(8, 256, *options, "--rate", str(round(OVERLOAD * peak)))
    growth_kib = resident_kib(broker) - before
    started = time.perf_counter()
    recovered = through_broker(6, 256, *options)["requests_per_second"]
    seconds = time.perf_counter() - started
    table.add_row("peak of requests to 20 queues each", f"{peak:,.0f}/s", "")
    table.add_row(
        f"goodput at {OVERLOAD} times that, of the peak", f"{overloaded['requests_per_second'] / peak:.2f}", ">= 0.8"
    )
    table.add_row("median time of a refusal", f"{overloaded['errors_p50_ms'] or 0:.1f} ms", "< 50")
    table.add_row("refused", f"{overloaded['errors']:,} {overloaded['errors_by_name']}", "")
    table.add_row("broker memory grew by", f"{growth_kib / 1024:.0f} MiB", "bounded")
    table.add_row(
        f"closed loop afterwards, of the peak, within {seconds:.0f} s", f"{recovered / peak:.2f}", "within 10 s"
    )


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    table = Table("at the limits", "measured", "target")
    with system() as (server, broker):
        with another_broker(server) as other_url:
            for name, url in (("the same broker", URL), ("another broker", other_url)):
                target = "< 20" if url == URL else "< 100"
                table.add_row(
                    f"a waiting read is answered through {name}", f"{uvloop.run(wake_up_ms(url)):.1f} ms", target
                )
        measure_idle_clients(broker, table)
        measure_overload(broker, table)
    Console().print(table)


if __name__ == "__main__":
    main()
