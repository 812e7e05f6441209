"""Compares one operation per transaction in plain SQL, through pgbench, with batches of the Store.

pgbench is the fastest client, and its statements look up no names and check nothing. The Store does all of that, and is
faster because the operations of a batch share a commit and a round trip.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any, Literal

import asyncpg

from stafette.database.embedded import EmbeddedPostgres
from stafette.database.messages import LeaseRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, LeaseRef, Selection

Operation = Literal["send", "receive", "lease+ack"]
OPERATIONS: tuple[Operation, ...] = ("send", "receive", "lease+ack")
ONE_EACH = "one per transaction"
SIZES = (32, 256)

QUEUES = 20
BODY = b"x" * 200
RANK = 5
PGBENCH_CONNECTIONS, PGBENCH_THREADS = 16, 2
STORE_CONNECTIONS = 4

COLUMNS = "id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body"
NEXT = """
    SELECT ctid FROM stafette.ready WHERE store_id = :queue AND receiver_id = 0
    ORDER BY rank, id LIMIT 1 FOR UPDATE SKIP LOCKED"""
CHOOSE = f"\\set queue random(:first_queue, :first_queue + {QUEUES - 1})\n"

PLAIN_SQL: dict[Operation, str] = {
    "send": CHOOSE
    + f"""INSERT INTO stafette.ready ({COLUMNS})
VALUES (nextval('stafette.message_id'), :queue, 0, :sender, {RANK}, 0, NULL, now(), NULL, NULL,
        '\\x{BODY.hex()}');
""",
    "receive": CHOOSE + f"DELETE FROM stafette.ready WHERE ctid = ({NEXT}) RETURNING *;\n",
    "lease+ack": CHOOSE
    + f"""WITH taken AS (DELETE FROM stafette.ready WHERE ctid = ({NEXT}) RETURNING *)
INSERT INTO stafette.leased ({COLUMNS.replace("store", "queue")}, token, holder_id, leased_until)
SELECT id, store_id, receiver_id, sender_id, rank, deliveries + 1, context, arrived_at, expires_at, headers, body,
       nextval('stafette.lease_token'), :sender::integer, now() + interval '30 seconds' FROM taken
RETURNING id, token, body \\gset
DELETE FROM stafette.leased WHERE id = :id AND token = :token AND leased_until > now();
""",
}


@dataclass(frozen=True)
class Effort:
    """Number of repetitions, and of operations in each, by variant."""

    repetitions: int
    one_each: int
    batched: int


@dataclass(frozen=True)
class Result:
    """Operations per second, and their ratio to one per transaction: medians over the repetitions."""

    per_second: int
    ratio: float

    @classmethod
    def of(cls, rates: list[float], one_each: list[float]) -> Result:
        ratios = [rate / base for rate, base in zip(rates, one_each, strict=True)]
        return cls(round(median(rates)), round(median(ratios), 2))


@dataclass(frozen=True)
class Variant:
    """A way to run operations, and how many of them are measured together."""

    name: str
    operations: int
    run: Callable[[Operation, int], Awaitable[float]]


async def measure(server: EmbeddedPostgres, effort: Effort, say: Callable[[str], None]) -> dict[str, dict[str, Result]]:
    """Results by operation and variant; variants of an operation run one after another, in each repetition."""
    rates: dict[str, dict[str, list[float]]] = {operation: {} for operation in OPERATIONS}
    async with await Store.open(server.url, connections=STORE_CONNECTIONS) as store:
        sender = (await store.clients.register("bench")).id
        queues = [await store.queues.create(sender, f"bench {number}") for number in range(QUEUES)]
        first, names = queues[0].id, [queue.name for queue in queues]
        variants = [
            Variant(ONE_EACH, effort.one_each, Pgbench(server, first_queue=first, sender=sender).rate),
            *(
                Variant(f"batches of {size}", effort.batched, Batches(store, sender, names, size).rate)
                for size in SIZES
            ),
        ]
        for repetition in range(1, effort.repetitions + 1):
            for operation in OPERATIONS:
                say(f"throughput {repetition}/{effort.repetitions}: {operation}")
                for variant in variants:
                    messages = 0 if operation == "send" else 2 * variant.operations
                    await reset_queues(server, first, sender, messages)
                    rate = await variant.run(operation, variant.operations)
                    rates[operation].setdefault(variant.name, []).append(rate)
    return {
        operation: {name: Result.of(values, by_name[ONE_EACH]) for name, values in by_name.items()}
        for operation, by_name in rates.items()
    }


async def reset_queues(server: EmbeddedPostgres, first_queue: int, sender: int, messages: int) -> None:
    """Remove all rows, dead ones too, and fill the queues with so many messages."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("TRUNCATE stafette.ready, stafette.leased")
    await connection.execute("CHECKPOINT")  # so that none starts during the measurement, with full-page writes after it
    await connection.execute(
        f"INSERT INTO stafette.ready ({COLUMNS}) SELECT nextval('stafette.message_id'), $1::integer + n % {QUEUES}, 0,"
        f" $2::integer, {RANK}, 0, NULL, now(), NULL, NULL, $3::bytea FROM generate_series(1, $4::integer) AS n",
        first_queue, sender, BODY, messages,
    )  # fmt: skip
    await connection.execute("VACUUM ANALYZE stafette.ready, stafette.leased")
    await connection.close()


class Pgbench:
    """PostgreSQL's own load generator, with prepared statements."""

    def __init__(self, server: EmbeddedPostgres, *, first_queue: int, sender: int) -> None:
        self._server = server
        self._values = {"first_queue": first_queue, "sender": sender}

    async def rate(self, operation: Operation, operations: int) -> float:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(PLAIN_SQL[operation])
            script.flush()
            command = [
                str(self._server.bin("pgbench")), "--no-vacuum", "--protocol=prepared", f"--file={Path(script.name)}",
                f"--client={PGBENCH_CONNECTIONS}", f"--jobs={PGBENCH_THREADS}",
                f"--transactions={operations // PGBENCH_CONNECTIONS}",
                *(f"--define={name}={value}" for name, value in self._values.items()), self._server.url,
            ]  # fmt: skip
            completed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        tps = re.search(r"^tps = ([\d.]+)", completed.stdout, re.MULTILINE)
        if completed.returncode or not tps:
            raise RuntimeError(f"pgbench failed: {(completed.stderr or completed.stdout).splitlines()[0]}")
        return float(tps[1])


class Batches:
    """The Store, called with batches of one size over a few connections."""

    def __init__(self, store: Store, client: int, queues: list[str], size: int) -> None:
        self._store, self._client, self._queues, self._size = store, client, queues, size

    async def rate(self, operation: Operation, operations: int) -> float:
        batches = iter(range(operations // self._size))  # shared by the workers
        act = {"send": self._send, "receive": self._receive, "lease+ack": self._lease_and_ack}[operation]
        started = time.perf_counter()
        async with asyncio.TaskGroup() as workers:
            for _ in range(STORE_CONNECTIONS):
                workers.create_task(self._work(act, batches))
        return operations // self._size * self._size / (time.perf_counter() - started)

    async def _work(self, act: Callable[[list[str]], Awaitable[None]], batches: Iterator[int]) -> None:
        for batch in batches:
            await act(list(islice((self._queues[number % QUEUES] for number in count(batch * self._size)), self._size)))

    async def _send(self, queues: list[str]) -> None:
        check(await self._store.messages.send([SendRequest(self._client, Draft((queue,), BODY)) for queue in queues]))

    async def _receive(self, queues: list[str]) -> None:
        check(await self._store.messages.receive([ReadRequest(self._client, Selection(queue)) for queue in queues]))

    async def _lease_and_ack(self, queues: list[str]) -> None:
        answers = check(
            await self._store.messages.lease([LeaseRequest(self._client, Selection(queue)) for queue in queues])
        )
        errors = await self._store.messages.ack(
            [LeaseRef(self._client, leased.message.id, leased.token) for [leased] in answers]
        )
        if any(errors):
            raise RuntimeError(f"a lease was lost: {errors}")


def check(answers: list[Any]) -> list[Any]:
    """Require that each read got one message and each send stored one; else the measurement is wrong."""
    for answer in answers:
        if not isinstance(answer, list) or len(answer) != 1:
            raise RuntimeError(f"an operation did not do its work: {answer}")
    return answers
