"""What is under load while things break: each use is a handful of loops over the public client, with queues of its own.

Senders and readers come in pairs of clients, each shared by several tasks, as applications do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import asyncpg

import stafette.aio
from bench.torture.actors import Actor, Recorder
from bench.torture.history import Kind
from stafette.database.connect import connect_any

CLIENTS, TASKS = 2, 2
"""Clients of each role, and tasks that share one."""
WORKERS = 8
"""Tasks that share a client and lease messages: some take their time."""
SEND_PAUSE, READ_PAUSE = 0.01, 0.003
"""Seconds between two calls of a task: there are to be many faults, not many messages."""
BACKLOG_PAUSE = 0.3
"""Now and then, so that messages pile up."""
TIMEOUT = 3.0
"""Of every client: a broker that is frozen, or answers that are held back, outlast it."""
SQL_SECONDS = 5.0
SQL_CLIENT = "sql"

Loop = Callable[[], Awaitable[None]]


@dataclass
class Stage:
    """Where loops act: one load process."""

    hosts: tuple[str, ...]
    """The brokers, host and port."""
    database: str
    generation: int
    recorder: Recorder
    exits: AsyncExitStack
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def actors(self, use: str, role: str) -> list[Actor]:
        """The clients of a role, connected."""
        actors = []
        for number in range(CLIENTS):
            hosts = self.hosts[number:] + self.hosts[:number]  # each begins with another broker
            name = f"{use} {role} {number}.{self.generation}"
            actors.append(await self._connect(use, f"stafette://{','.join(hosts)}", name))
        return actors

    async def _connect(self, use: str, url: str, name: str) -> Actor:
        connected = await stafette.aio.connect(url, name=name, timeout=TIMEOUT)
        return Actor(use, await self.exits.enter_async_context(connected), self.recorder)


@dataclass(frozen=True)
class Use:
    """A way to use Stafette."""

    name: str
    queues: tuple[str, ...]
    loops: Callable[[Stage], Awaitable[list[Loop]]]
    ordered: bool = False
    """Whether readers do nothing that changes the order."""
    sql: bool = False
    """Whether rows of its own transactions say what was done."""


async def _senders(stage: Stage, use: str, queues: Sequence[Sequence[str]], *, key: bool) -> list[Loop]:
    """Each task sends to one of the lists of queues, one message after the other, with a priority of its own."""
    loops: list[Loop] = []
    for actor in await stage.actors(use, "sender"):
        for _ in range(TASKS):
            loops.append(_sender(stage, actor, len(loops), queues[len(loops) % len(queues)], key=key))
    return loops


def _sender(stage: Stage, actor: Actor, task: int, queues: Sequence[str], *, key: bool) -> Loop:
    numbers = count()

    async def send() -> None:
        body = f"{actor.name}/{task}/{next(numbers)}"
        outcome = await actor.send(queues, body, key=body if key else None, priority=5 + task)
        while key and outcome != "done" and not stage.stopping.is_set():
            outcome = await actor.send(queues, body, key=body, priority=5 + task)
        await asyncio.sleep(SEND_PAUSE)

    return send


async def _readers(
    stage: Stage,
    use: str,
    queues: Sequence[str],
    read: Callable[[Actor, str], Awaitable[object]],
    *,
    tasks: int = TASKS,
) -> list[Loop]:
    loops: list[Loop] = []
    for actor in await stage.actors(use, "reader"):
        for _ in range(tasks):
            loops.append(_reader(actor, queues[len(loops) % len(queues)], read))
    return loops


def _reader(actor: Actor, queue: str, read: Callable[[Actor, str], Awaitable[object]]) -> Loop:
    async def loop() -> None:
        await read(actor, queue)
        await asyncio.sleep(READ_PAUSE if random.random() < 0.97 else BACKLOG_PAUSE)

    return loop


# Sends that nobody reads until the end


async def _send(stage: Stage) -> list[Loop]:
    return await _senders(stage, "send", [("send",)], key=False)


async def _send_with_key(stage: Stage) -> list[Loop]:
    return await _senders(stage, "send with key", [("keyed",)], key=True)


async def _several(stage: Stage) -> list[Loop]:
    return await _senders(stage, "several queues", [("several-1", "several-2", "several-3")], key=False)


# Reads


async def _receive(stage: Stage) -> list[Loop]:
    queues = ("receive-1", "receive-2")
    senders = await _senders(stage, "receive", [(queue,) for queue in queues], key=True)
    return senders + await _readers(stage, "receive", queues, Actor.receive)


async def _receive_many(stage: Stage) -> list[Loop]:
    queues = ("many-1", "many-2")
    senders = await _senders(stage, "receive many", [(queue,) for queue in queues], key=True)
    return senders + await _readers(stage, "receive many", queues, Actor.receive_many)


async def _cancelled(stage: Stage) -> list[Loop]:
    senders = await _senders(stage, "receive cancelled", [("cancelled",)], key=True)
    return senders + await _readers(stage, "receive cancelled", ("cancelled",), Actor.receive_or_cancel)


async def _lease(stage: Stage) -> list[Loop]:
    senders = await _senders(stage, "lease", [("lease",)], key=True)
    return senders + await _readers(stage, "lease", ("lease",), _work_on_a_lease, tasks=WORKERS)


async def _work_on_a_lease(actor: Actor, queue: str) -> None:
    """Mostly acknowledge at once; else give back, take almost all the time, be late, or acknowledge twice."""
    seconds = random.uniform(1.0, 2.0)
    leased = await actor.lease(queue, seconds)
    if leased is None:
        return
    match random.choices(["ack", "nack", "delay", "slow", "late", "twice"], [60, 8, 8, 8, 8, 8])[0]:
        case "ack":
            await actor.ack(leased)
        case "nack":
            await actor.nack(leased)
        case "delay":
            await actor.nack(leased, 0.2)
        case "slow":
            await asyncio.sleep(0.7 * seconds)
            await actor.ack(leased)
        case "late":
            await asyncio.sleep(seconds + random.uniform(0.0, 1.5))
            await actor.ack(leased)
        case "twice":
            await actor.ack(leased)
            await actor.ack(leased)


# Request and reply


async def _request(stage: Stage) -> list[Loop]:
    requesters = await stage.actors("request", "requester")
    servers = await stage.actors("request", "server")
    loops: list[Loop] = [_reader(server, "request", _serve) for server in servers for _ in range(TASKS)]
    loops += [_requester(actor, task) for actor in requesters for task in range(2 * TASKS)]
    return loops


async def _serve(server: Actor, queue: str) -> None:
    if message := await server.receive(queue):
        await server.reply(message)


def _requester(actor: Actor, task: int) -> Loop:
    numbers = count()

    async def request() -> None:
        await actor.request("request", f"{actor.name}/{task}/{next(numbers)}")
        await asyncio.sleep(SEND_PAUSE)

    return request


# SQL, in transactions that write rows of their own

SQL_TABLES = """
CREATE SCHEMA torture;
CREATE TABLE torture.sent (body text NOT NULL);
CREATE TABLE torture.taken (id bigint NOT NULL, body text NOT NULL, priority integer NOT NULL);
"""


class Application:
    """A program with a connection to the database, which comes back after a failure."""

    def __init__(self, stage: Stage, task: int) -> None:
        self._stage = stage
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._bodies = (f"sql {stage.generation}/{task}/{number}" for number in count())

    async def send(self) -> None:
        body = next(self._bodies)

        async def work(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, Any]:
            sql = "SELECT stafette.send($1, 'sql', $2)"
            message_id = await connection.fetchval(sql, SQL_CLIENT, body.encode())
            await connection.execute("INSERT INTO torture.sent VALUES ($1)", body)
            return {"ids": (message_id,)}

        await self._transaction("send", work, body=body)
        await asyncio.sleep(SEND_PAUSE)

    async def receive(self) -> None:
        async def work(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, Any]:
            sql = "SELECT id, convert_from(body, 'UTF8') AS body, priority FROM stafette.receive($1, 'sql')"
            for row in await connection.fetch(sql, SQL_CLIENT):
                await connection.execute("INSERT INTO torture.taken VALUES ($1, $2, $3)", *row)
            return {}

        await self._transaction("receive", work, rolls_back=random.random() < 0.1)
        await asyncio.sleep(READ_PAUSE)

    async def _transaction(
        self,
        kind: Kind,
        work: Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[dict[str, Any]]],
        *,
        body: str = "",
        rolls_back: bool = False,
    ) -> None:
        recorder = self._stage.recorder
        call = recorder.begin("sql", kind, SQL_CLIENT, ("sql",), body=body)
        try:
            connection = await self._connect()
            transaction = connection.transaction()
            await transaction.start()
            answer = await work(connection)
            await (transaction.rollback() if rolls_back else transaction.commit())
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            ours = (getattr(error, "sqlstate", None) or "").startswith("ST")
            recorder.end(call, "unknown", error=type(error).__name__ if ours else "Unavailable")
            self.close()
            await asyncio.sleep(0.1)
        else:
            recorder.end(call, "not done" if rolls_back else "done", **answer)

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect_any(self._stage.database, timeout=SQL_SECONDS, command_timeout=SQL_SECONDS)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def _sql(stage: Stage) -> list[Loop]:
    applications = [Application(stage, task) for task in range(2 * TASKS)]
    for application in applications:
        stage.exits.callback(application.close)
    loops: list[Loop] = [application.send for application in applications[:TASKS]]
    return loops + [application.receive for application in applications[TASKS:]]


USES: tuple[Use, ...] = (
    Use("send", ("send",), _send),
    Use("send with key", ("keyed",), _send_with_key),
    Use("several queues", ("several-1", "several-2", "several-3"), _several),
    Use("receive", ("receive-1", "receive-2"), _receive, ordered=True),
    Use("receive many", ("many-1", "many-2"), _receive_many, ordered=True),
    Use("receive cancelled", ("cancelled",), _cancelled),
    Use("lease", ("lease",), _lease),
    Use("request", ("request",), _request),
    Use("sql", ("sql",), _sql, sql=True),
)


async def act(stage: Stage, names: Sequence[str]) -> None:
    """All loops of these uses, until the stage stops."""
    loops = [loop for use in USES if use.name in names for loop in await use.loops(stage)]

    async def until_stopped(loop: Loop) -> None:
        while not stage.stopping.is_set():
            await loop()

    async with asyncio.TaskGroup() as tasks:
        for loop in loops:
            tasks.create_task(until_stopped(loop))
