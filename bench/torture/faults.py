"""What breaks: one class for each fault. `strike` breaks something once, and returns when it has been put back.

What comes after a strike, whether all uses go on, is for the runner to see.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from bench.torture.databases import Database, Pair, Server
from bench.torture.system import System
from bench.torture.uses import TIMEOUT

LEASE_OVER = "UPDATE stafette.brokers SET alive_until = now() - interval '1 second' WHERE name LIKE '%/' || $1::text"
DISK_BYTES = 512 * 1024 * 1024


class Unsuitable(Exception):
    """This machine cannot have this fault; says why."""


class Fault:
    """Something that breaks."""

    name: ClassVar[str]

    @contextmanager
    def prepared(self, folder: Path) -> Iterator[None]:
        """The folder for the database, as this fault needs it."""
        yield

    def database(self, folder: Path) -> Database:
        """The database that this fault needs."""
        return Server(folder)

    async def strike(self, system: System) -> None:
        """Break it once, and put it back."""
        raise NotImplementedError


class Nothing(Fault):
    """Nothing breaks: what is wrong all the same is found without."""

    name = "nothing"

    async def strike(self, system: System) -> None:
        await asyncio.sleep(0.5)


class BrokerKilled(Fault):
    """A broker is killed, and comes back on its port."""

    name = "broker killed"

    async def strike(self, system: System) -> None:
        broker = random.choice(system.brokers)
        await broker.kill()
        await asyncio.sleep(random.uniform(0.0, 0.5))
        await broker.start()


class BrokerFrozen(Fault):
    """A broker stands still until its clients have left it and its lease has run out, and goes on where it was."""

    name = "broker frozen"

    async def strike(self, system: System) -> None:
        broker = random.choice(system.brokers)
        broker.signal(signal.SIGSTOP)
        try:
            if random.random() < 0.5:  # clients continue their sessions either way
                await system.fetch(LEASE_OVER, str(broker.pid))
            await asyncio.sleep(TIMEOUT * random.uniform(0.3, 1.6))
        finally:
            broker.signal(signal.SIGCONT)


class PostmasterKilled(Fault):
    """The database dies without a word, or shuts down at once without writing anything, and is started again."""

    name = "postmaster killed"

    async def strike(self, system: System) -> None:
        await system.database.kill(random.choice([signal.SIGKILL, signal.SIGQUIT]))
        await asyncio.sleep(random.uniform(0.0, 0.3))
        await system.database.start()


class PostgresRestarted(Fault):
    """The database is restarted as an operator would."""

    name = "PostgreSQL restarted"

    async def strike(self, system: System) -> None:
        await system.database.stop()
        await system.database.start()


class StandbyPromoted(Fault):
    """The primary is killed while its synchronous standby lags, and the standby takes over."""

    name = "standby promoted"

    def database(self, folder: Path) -> Database:
        return Pair(folder)

    async def strike(self, system: System) -> None:
        assert isinstance(system.database, Pair)
        await system.database.promote()
        await asyncio.sleep(random.uniform(0.5, 1.0))
        await system.database.add_standby()


class ConnectionCut(Fault):
    """Every connection is cut, each after some bytes in one direction: in the middle of a frame, or between two."""

    name = "connection cut"

    async def strike(self, system: System) -> None:
        for proxy in system.proxies:
            proxy.cut_soon()
        await asyncio.sleep(random.uniform(0.1, 0.5))


class AnswersDelayed(Fault):
    """Answers come late: before their deadline, or after it, when nobody waits any more."""

    name = "answers delayed"

    async def strike(self, system: System) -> None:
        held = random.sample(system.proxies, random.randint(1, len(system.proxies)))
        for proxy in held:
            proxy.hold()
        await asyncio.sleep(TIMEOUT * random.uniform(0.3, 1.6))
        for proxy in held:
            proxy.release()


class DiskFull(Fault):
    """The database's disk fills up, and somebody makes room again."""

    name = "disk full"

    @contextmanager
    def prepared(self, folder: Path) -> Iterator[None]:
        """The folder is a small file system in memory."""
        if os.geteuid() != 0:
            raise Unsuitable("only root can make a small file system to fill")
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs", str(folder)]
        if subprocess.run(mounting, capture_output=True, check=False).returncode:
            raise Unsuitable("this machine does not let us mount a small file system to fill")
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)

    def database(self, folder: Path) -> Database:
        return Server(folder, {"max_wal_size": "96MB", "min_wal_size": "32MB"})

    async def strike(self, system: System) -> None:
        assert isinstance(system.database, Server)
        folder = system.database.folder
        filler, space = folder / "filler", os.statvfs(folder)
        with filler.open("wb") as file:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize)
            await asyncio.sleep(random.uniform(0.5, 1.5))
        filler.unlink()
        await system.database.start()  # it may have given up


class ClientKilled(Fault):
    """All clients are killed, and others come."""

    name = "client killed"

    async def strike(self, system: System) -> None:
        await system.load.kill()
        await system.start_load()


FAULTS: tuple[Fault, ...] = (
    BrokerKilled(), BrokerFrozen(), PostmasterKilled(), PostgresRestarted(), StandbyPromoted(), ConnectionCut(),
    AnswersDelayed(), DiskFull(), ClientKilled(),
)  # fmt: skip
BY_NAME = {fault.name: fault for fault in (Nothing(), *FAULTS)}
