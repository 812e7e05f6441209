"""What is tortured: a database, two brokers behind a proxy each, and the load; all on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import msgspec

import stafette.aio
from bench.torture.databases import Database
from bench.torture.history import Event, History
from bench.torture.load import Task
from bench.torture.proxy import Proxy
from bench.torture.uses import SQL_CLIENT, SQL_TABLES, Use
from bench.torture.waiting import LIMIT_SECONDS, free_port
from stafette.database import schema
from stafette.database.connect import connect_any
from stafette.errors import Unavailable

ROOT = Path(__file__).parents[2]
BROKERS = 2
MAX_DELIVERIES = 10_000
"""Of each queue: no message is to die of being given back."""
START_BROKER = "from stafette.cli import main; main()"
STOP_SECONDS = 30.0


class Broker:
    """A broker process on a port of its own, so that it can come back."""

    def __init__(self, database: str, log: Path, patch: str) -> None:
        self.port = free_port()
        self._database = database
        self._log = log
        self._patch = patch
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", f"{self._patch}\n{START_BROKER}",
                "broker", "--database", self._database, "--port", str(self.port), "--data", str(self._log.parent),
                cwd=ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(LIMIT_SECONDS):
            if not await self._process.stdout.readline():
                raise Unavailable(f"a broker did not start; see {self._log}")

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """End it, whatever state it is in."""
        if self._process is not None and self._process.returncode is None:
            self.signal(signal.SIGKILL)
            await self._process.wait()


class Load:
    """The load process, its events written to the history as they come."""

    def __init__(self, history: History, log: Path) -> None:
        self._history = history
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, task: Task) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bench.torture.load", msgspec.json.encode(task).decode(),
                cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        decode = msgspec.json.Decoder(Event).decode
        async for line in self._process.stdout:
            if line.endswith(b"\n"):  # a process that was killed may leave half a line
                self._history.add(decode(line))

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return lines[-1] if lines else "it said nothing"

    async def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._listening is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            await self._listening

    async def stop(self) -> bool:
        """Let it finish its calls; False if it had to be killed."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._listening is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._listening
                return await self._process.wait() == 0
        except TimeoutError:
            return False
        finally:
            await self.kill()


@dataclass(frozen=True)
class Planted:
    """What is wrong in this system on purpose."""

    sql: tuple[str, ...] = ()
    """Statements that replace functions of the database."""
    broker: str = ""
    """Python that brokers run before they start."""
    load: str = ""
    """Python that the load runs before it starts."""


NOTHING_PLANTED = Planted()


class System:
    """All of it, running."""

    def __init__(self, folder: Path, database: Database, selected: Sequence[Use], planted: Planted) -> None:
        self.database = database
        self.uses = selected
        self.history = History()
        self.brokers = [Broker(database.url, folder / f"broker-{n}.log", planted.broker) for n in range(BROKERS)]
        self.proxies = [Proxy(broker.port) for broker in self.brokers]
        self.load = Load(self.history, folder / "load.log")
        self._planted = planted
        self._generation = 0

    @property
    def broker_url(self) -> str:
        """The brokers themselves."""
        return "stafette://" + ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    async def start(self) -> None:
        """Start brokers and proxies, make the queues, and begin the load."""
        await asyncio.gather(*(broker.start() for broker in self.brokers), *(proxy.open() for proxy in self.proxies))
        async with await stafette.aio.connect(self.broker_url, name=SQL_CLIENT) as client:
            for use in self.uses:
                for queue in use.queues:
                    await client.create_queue(queue, max_deliveries=MAX_DELIVERIES)
        await self.execute(SQL_TABLES)
        await self.start_load()

    async def start_load(self) -> None:
        """Begin the load, with clients that have never been there."""
        self._generation += 1
        names = tuple(use.name for use in self.uses)
        hosts = tuple(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)
        await self.load.start(Task(hosts, self.database.url, names, self._generation, self._planted.load))

    async def execute(self, script: str) -> None:
        """Run a script of SQL, on a connection of its own."""
        connection = await connect_any(self.database.url)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """The rows of a statement, on a connection of its own."""
        connection = await connect_any(self.database.url)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close()

    async def end(self) -> None:
        """End all processes."""
        await self.load.kill()
        for proxy in self.proxies:
            await proxy.close()
        for broker in self.brokers:
            await broker.kill()


@asynccontextmanager
async def running(
    folder: Path, database: Database, selected: Sequence[Use], planted: Planted = NOTHING_PLANTED
) -> AsyncIterator[System]:
    """A system, its logs in a folder, until the block ends."""
    try:
        await database.start()
        await schema.migrate(database.url)
        system = System(folder, database, selected, planted)
        for statement in planted.sql:
            await system.execute(statement)
        try:
            await system.start()
            yield system
        finally:
            await system.end()
    finally:
        await database.stop()
