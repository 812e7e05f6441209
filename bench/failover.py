"""A standby is promoted under load, its primary killed or frozen: how long sends stay unanswered, and what is lost.

Everything is on this machine: a primary, a synchronous standby, one broker, clients that send under keys and repeat
what was refused. The standby is promoted at once, so what is measured is the broker's and PostgreSQL's part.

    python -m bench.failover [--seconds 3] [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import uvloop
from rich.console import Console
from rich.table import Table

import stafette
from bench.broker import URL, broker_process
from bench.postgres_pair import PostgresPair, postgres_pair
from stafette.client.aio import Client
from stafette.database import schema
from stafette.errors import RequestTimeout, Unavailable

CLIENTS = 16
PORT = int(URL.rpartition(":")[2])
GIVE_UP_SECONDS = 120.0
"""No failover takes so long: the round has failed."""
REPEAT_SECONDS = 0.05
"""Before a send that was refused is repeated."""


@dataclass
class Sends:
    """What all clients sent and were answered."""

    answered: dict[bytes, float] = field(default_factory=dict)
    """When each body was answered."""
    in_doubt: set[bytes] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    ended: bool = False
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def send_on(self, client: Client) -> None:
        """Send message after message until the end, each until it is answered."""
        number = 0
        while not self.ended:
            number += 1
            body = f"{client.name} {number}".encode()
            self.in_doubt.add(body)
            while not self.ended:
                try:
                    await client.send("jobs", body, key=body.decode())
                except (Unavailable, RequestTimeout) as error:
                    self.refused[type(error).__name__] += 1
                    await asyncio.sleep(REPEAT_SECONDS)
                else:
                    self.answered[body] = time.monotonic()
                    self.in_doubt.discard(body)
                    async with self.progress:
                        self.progress.notify_all()
                    break

    def since(self, moment: float) -> dict[str, float]:
        """For each client with an answer since then, when its first came."""
        first: dict[str, float] = {}
        for body, at in reversed(self.answered.items()):
            if at <= moment:
                break
            first[body.decode().rpartition(" ")[0]] = at
        return first


@dataclass
class Round:
    """What one failover came to."""

    first_seconds: float
    """From the fault until the first send is answered by the new primary."""
    all_seconds: float
    """Until every client has been answered again."""
    answered: int
    lost: int
    twice: int
    invented: int
    refused: dict[str, int]


async def fail_over(
    url: str, clients: int, seconds: float, fault: Callable[[], None], stored_at: Callable[[], str]
) -> Round:
    """Put load on a broker, cause a fault, wait until all clients are answered again, and compare what is stored."""
    sends = Sends()
    connected = [await stafette.aio.connect(url, name=f"sender-{number}") for number in range(clients)]
    await connected[0].create_queue("jobs", exist_ok=True)
    tasks = [asyncio.create_task(sends.send_on(client)) for client in connected]
    await asyncio.sleep(seconds)
    begun = time.monotonic()
    await asyncio.to_thread(fault)
    over = time.monotonic()
    async with asyncio.timeout(GIVE_UP_SECONDS), sends.progress:
        await sends.progress.wait_for(lambda: len(sends.since(over)) == clients)
    first = sends.since(over)
    await asyncio.sleep(seconds)
    sends.ended = True
    await asyncio.gather(*tasks)
    for client in connected:
        await client.close()
    stored = await stored_bodies(stored_at())
    answered = set(sends.answered)
    return Round(
        first_seconds=min(first.values()) - begun,
        all_seconds=max(first.values()) - begun,
        answered=len(answered),
        lost=len(answered - set(stored)),
        twice=sum(1 for count in stored.values() if count > 1),
        invented=len(set(stored) - answered - sends.in_doubt),
        refused=dict(sends.refused),
    )


async def stored_bodies(database: str) -> Counter[bytes]:
    connection = await asyncpg.connect(database)
    rows = await connection.fetch("SELECT body FROM stafette.ready")
    await connection.close()
    return Counter(row[0] for row in rows)


def one_round(end: Callable[[PostgresPair], None], seconds: float) -> Round:
    """A pair, a broker and a failover."""
    with tempfile.TemporaryDirectory() as folder, postgres_pair(Path(folder)) as pair:
        asyncio.run(schema.migrate(pair.url))

        def fault() -> None:
            end(pair)
            pair.promote()

        with broker_process(pair.url, PORT):
            return uvloop.run(fail_over(URL, CLIENTS, seconds, fault, lambda: pair.new_url))


FAULTS: dict[str, Callable[[PostgresPair], None]] = {"killed": PostgresPair.kill, "frozen": PostgresPair.freeze}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = {name: [one_round(end, options.seconds) for _ in range(options.rounds)] for name, end in FAULTS.items()}
    summary = {
        name: {
            "first_answer_seconds": [round(result.first_seconds, 2) for result in results],
            "all_answered_seconds": statistics.median(round(result.all_seconds, 2) for result in results),
            "answered": sum(result.answered for result in results),
            "lost": sum(result.lost for result in results),
            "twice": sum(result.twice for result in results),
            "invented": sum(result.invented for result in results),
        }
        for name, results in rounds.items()
    }
    if options.json:
        print(json.dumps(summary))
        return
    table = Table("a standby is promoted; the primary is", "killed", "frozen", "target")
    targets = {"all_answered_seconds": "< 10", "lost": "0", "twice": "0", "invented": "0"}
    for key in summary["killed"]:
        table.add_row(key.replace("_", " "), *(str(summary[name][key]) for name in FAULTS), targets.get(key, ""))
    Console().print(table)


if __name__ == "__main__":
    main()
