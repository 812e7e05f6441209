"""Durable requests per second of the whole system, compared with plain SQL on the same server in the same run.

Everything is on this machine: PostgreSQL with fsync, one broker process, the load generator with the public client.
Rounds are interleaved and medians compared, because shared machines are noisy.

    python -m bench.broker [--seconds 8] [--rounds 3] [--lasting 600]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from rich.console import Console
from rich.table import Table

from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres

STAFETTE = str(Path(sys.executable).with_name("stafette"))
PORT = 7479
URL = f"stafette://127.0.0.1:{PORT}"
PGBENCH = "pgbench, one operation per transaction"
TICKS = os.sysconf("SC_CLK_TCK")

# One operation per transaction, as an application would write it without a broker: half sends, half receives.
PLAIN_SEND = """\\set queue random(1, 20)
INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)
VALUES (nextval('stafette.message_id'), 100000 + :queue, 0, 1, 5, 0, now(), repeat('x', 200)::bytea);
"""
PLAIN_RECEIVE = """\\set queue random(1, 20)
DELETE FROM stafette.ready WHERE ctid = (
    SELECT ctid FROM stafette.ready WHERE store_id = 100000 + :queue AND receiver_id = 0
    ORDER BY rank, id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING body;
"""


@contextmanager
def broker_process(database: str, port: int, *options: str) -> Iterator[int]:
    """A broker on a port; yields its process id."""
    command = [STAFETTE, "broker", "--database", database, "--port", str(port), *options]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline(), "the broker did not start"
        yield broker.pid
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait()


@contextmanager
def system() -> Iterator[tuple[EmbeddedPostgres, int]]:
    """A database and a broker; yields the broker's process id too."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            asyncio.run(schema.migrate(server.url))
            with broker_process(server.url, PORT) as pid:
                yield server, pid
        finally:
            server.stop()


@contextmanager
def another_broker(server: EmbeddedPostgres) -> Iterator[str]:
    """A second broker on the same database; yields its URL."""
    with broker_process(server.url, PORT + 1):
        yield f"stafette://127.0.0.1:{PORT + 1}"


def through_broker(seconds: float, clients: int, *options: str, url: str = URL) -> dict[str, Any]:
    """One round of `stafette bench`, in a process of its own."""
    command = [
        STAFETTE,
        "bench",
        "--url",
        url,
        "--clients",
        str(clients),
        "--seconds",
        str(seconds),
        "--json",
        *options,
    ]
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(completed.stdout)
    return result


def through_pgbench(server: EmbeddedPostgres, seconds: float, folder: Path, protocol: str) -> float:
    """Operations per second of plain SQL, one per transaction, from 16 connections."""
    scripts = []
    for name, text in (("send", PLAIN_SEND), ("receive", PLAIN_RECEIVE)):
        script = folder / f"{name}.sql"
        script.write_text(text)
        scripts += ["-f", f"{script}@1"]
    socket = server.url.partition("host=")[2].partition("&")[0]
    load = f"-n -M {protocol} -c 16 -j 2 -T {int(seconds)} -h {socket} -U stafette".split()
    command = [str(server.bin("pgbench")), *load, *scripts, "stafette"]
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(next(line for line in completed.stdout.splitlines() if line.startswith("tps")).split()[2])


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children_seconds(times: os.times_result) -> float:
    """User and system time of the child processes that have ended."""
    return times.children_user + times.children_system


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def database_seconds(server: EmbeddedPostgres) -> float:
    """User and system time of a server's processes, also of those that have ended."""
    assert server.pid is not None
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    seconds = sum(map(int, fields[11:15])) / TICKS
    for child in children(server.pid):
        with contextlib.suppress(FileNotFoundError):
            seconds += cpu_seconds(child)
    return seconds


def cpu_per_request(server: EmbeddedPostgres, broker: int, seconds: float) -> dict[str, float]:
    """Microseconds of CPU time per request, by tier."""
    before = {"broker": cpu_seconds(broker), "database": database_seconds(server)}
    times_before = os.times()
    result = through_broker(seconds, 64)
    times_after = os.times()
    requests = result["requests_per_second"] * result["seconds"]
    after = {"broker": cpu_seconds(broker), "database": database_seconds(server)}
    generator = children_seconds(times_after) - children_seconds(times_before)
    tiers = {name: after[name] - before[name] for name in before} | {"load generator": generator}
    return {name: 1e6 * seconds / requests for name, seconds in tiers.items()}


async def dead_rows(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'ready'"))
    finally:
        await connection.close()


def measure_endurance(server: EmbeddedPostgres, seconds: float, console: Console) -> None:
    """Compare the throughput of the last minute with that of the first."""
    minutes = max(2, round(seconds / 60))
    rates = []
    for minute in range(minutes):
        rate = through_broker(60, 64)["requests_per_second"]
        rates.append(rate)
        console.print(f"minute {minute + 1}: {rate:,.0f} requests/s, {asyncio.run(dead_rows(server.url)):,} dead rows")
    console.print(f"last minute / first minute: {rates[-1] / rates[0]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--lasting", type=float, help="also run for so many seconds, and compare the last minute with the first"
    )
    options = parser.parse_args()
    console = Console()

    with system() as (server, broker), tempfile.TemporaryDirectory() as folder:
        through_broker(2, 64)  # warm up
        rates_by_name: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for name, protocol in ((PGBENCH, "simple"), (f"{PGBENCH}, prepared", "prepared")):
                rate = through_pgbench(server, options.seconds, Path(folder), protocol)
                rates_by_name.setdefault(name, []).append(rate)
            for clients in (64, 1000):
                result = through_broker(options.seconds, clients)
                rates_by_name.setdefault(f"stafette, {clients} clients", []).append(result["requests_per_second"])
            rates_by_name.setdefault("stafette, 64 clients, echo", []).append(
                through_broker(options.seconds / 2, 64, "--echo")["requests_per_second"]
            )
        plain = statistics.median(rates_by_name[PGBENCH])
        table = Table("requests per second", "median", "rounds", "ratio to pgbench")
        for name, rates in rates_by_name.items():
            median = statistics.median(rates)
            table.add_row(name, f"{median:,.0f}", " ".join(f"{rate:,.0f}" for rate in rates), f"{median / plain:.2f}")
        console.print(table)

        tiers = cpu_per_request(server, broker, options.seconds)
        table = Table("CPU time per request", "µs")
        for name, microseconds in tiers.items():
            table.add_row(name, f"{microseconds:.0f}")
        console.print(table)
        if options.lasting:
            measure_endurance(server, options.lasting, console)


if __name__ == "__main__":
    main()
