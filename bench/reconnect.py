"""How long until all clients are back when their broker is killed and another is started in its place.

All have secrets. They are back when each has had an answer again; until then they look for a broker as any client does.

    python -m bench.reconnect [--clients 5000] [--limit 300] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import asyncpg
import uvloop
from rich.console import Console
from rich.table import Table

import stafette
from bench.broker import STAFETTE, cpu_seconds
from stafette.broker.secrets import hash_secret
from stafette.client.aio import Client
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from stafette.errors import StafetteError

SECRET = "correct horse battery staple"
CONNECTING = 50
"""Clients that connect at the same time, at first."""


def start_broker(server: EmbeddedPostgres, port: int) -> subprocess.Popen[str]:
    command = [STAFETTE, "broker", "--database", server.url, "--port", str(port), "--max-clients", "20000"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


async def connect_all(server: EmbeddedPostgres, url: str, count: int, timeout: float) -> list[Client]:
    """Clients with secrets. They get them once they are connected: so many first checks would take minutes."""
    room = asyncio.Semaphore(CONNECTING)

    async def connect(number: int) -> Client:
        async with room:
            return await stafette.aio.connect(url, name=f"client {number}", timeout=timeout)

    clients = await asyncio.gather(*(connect(number) for number in range(count)))
    for client in clients:
        name, mode, _ = client._failover._hello
        client._failover._hello = (name, mode, SECRET)
    connection = await asyncpg.connect(server.url)
    await connection.execute("UPDATE stafette.clients SET secret = $1", hash_secret(SECRET))
    await connection.close()
    return clients


async def measure(server: EmbeddedPostgres, count: int, limit: float) -> dict[str, float | int | None]:
    """Kill the broker, start another, and wait until all clients are back."""
    broker = start_broker(server, 0)
    assert broker.stdout is not None
    url = (await asyncio.to_thread(broker.stdout.readline)).strip()
    clients = await connect_all(server, url, count, 2 * limit)
    broker.kill()
    broker.wait()
    killed_at = time.perf_counter()
    broker = start_broker(server, int(url.rpartition(":")[2]))
    returns: list[float] = []

    async def come_back(client: Client) -> None:
        while True:
            with suppress(StafetteError):
                await client.ping()
                returns.append(time.perf_counter() - killed_at)
                return
            await asyncio.sleep(0.1)

    with suppress(TimeoutError):
        async with asyncio.timeout(limit):
            await asyncio.gather(*(come_back(client) for client in clients))
    processor = cpu_seconds(broker.pid)
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    for client in clients:  # the broker is gone: hang up without a word
        if client._failover._transport is not None:
            client._failover._transport.close()
    return {
        "clients": count,
        "back": len(returns),
        "first_seconds": returns[0] if returns else None,
        "half_seconds": returns[count // 2] if len(returns) > count // 2 else None,
        "all_seconds": returns[-1] if len(returns) == count else None,
        "broker_cpu_seconds": processor,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which it is enough")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            asyncio.run(schema.migrate(server.url))
            result = uvloop.run(measure(server, options.clients, options.limit))
        finally:
            server.stop()
    if options.json:
        print(json.dumps(result))
        return
    table = Table("when a broker is killed and started again", "")
    for name, value in result.items():
        table.add_row(name.replace("_", " "), "not in time" if value is None else f"{value:,.1f}".removesuffix(".0"))
    Console().print(table)


if __name__ == "__main__":
    main()
