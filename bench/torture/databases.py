"""The databases that are struck: one server, or a primary with a synchronous standby."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import asyncpg

from bench.torture.waiting import POLL_SECONDS, free_port, gone, lives, until
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.embedded.server_user import ServerUser
from stafette.errors import Unavailable


class Database(Protocol):
    """A PostgreSQL that can be struck."""

    @property
    def url(self) -> str:
        """Where brokers find it, whatever has happened to it."""

    async def start(self) -> None:
        """Start what does not run."""

    async def stop(self) -> None:
        """Stop everything, fast and in order."""

    async def kill(self, number: int) -> None:
        """Send a signal to the postmaster, and wait until it is gone."""


class Server:
    """One server."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._postgres = EmbeddedPostgres(folder)
        self._settings = dict(settings or {})
        self.url = ""

    async def start(self) -> None:
        await asyncio.to_thread(self._postgres.start)
        self.url = self._postgres.url
        if self._settings:
            connection = await asyncpg.connect(self.url)
            for name, value in self._settings.items():
                await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            await connection.execute("SELECT pg_reload_conf()")
            await connection.close()
            self._settings = {}

    async def stop(self) -> None:
        await asyncio.to_thread(self._postgres.stop)

    async def kill(self, number: int) -> None:
        if pid := self._postgres.pid:
            os.kill(pid, number)
            await gone(pid)


class Pair:
    """A primary and its synchronous standby, which change places at each failover."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = (free_port(), free_port())
        self._primary = 0
        self._programs = EmbeddedPostgres(folder / "programs")
        self._user = ServerUser.of(folder / "0")
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self.url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    async def start(self) -> None:
        self._folder.chmod(0o755)  # the server's user passes through
        self._user.make_private(self._data(0))
        options = "--username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync"
        await self._run("initdb", "-D", self._data(0), *options.split())
        settings = {
            "listen_addresses": "'127.0.0.1'", "unix_socket_directories": "''", "shared_buffers": "64MB",
            "wal_receiver_status_interval": "1s", "max_wal_size": "256MB",
        }  # fmt: skip
        with (self._data(0) / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        await self._launch(0)
        await self.add_standby()

    async def stop(self) -> None:
        for member in (0, 1):
            if self._pid(member):
                await self._run("pg_ctl", "stop", "-D", self._data(member), "-m", "immediate", "-w")

    async def kill(self, number: int) -> None:
        if pid := self._pid(self._primary):
            os.kill(pid, number)
            await gone(pid)

    async def add_standby(self) -> None:
        """Make the other member a copy of the primary, and let commits wait for it."""
        standby = 1 - self._primary
        if self._data(standby).exists():
            await asyncio.to_thread(shutil.rmtree, self._data(standby))
        self._user.make_private(self._data(standby))
        source = f"host=127.0.0.1 port={self._ports[self._primary]} user=postgres application_name=standby"
        await self._run(
            "pg_basebackup", "-D", self._data(standby), "-d", source, "-c", "fast", "-R", "--no-sync", "-X", "stream"
        )
        await self._launch(standby)
        connection = await self._connect(self._primary)
        try:
            await until(lambda: self._streams(connection), "the standby to stream")
            await connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            await connection.execute("SELECT pg_reload_conf()")
            await until(lambda: self._streams(connection, "sync"), "the standby to be synchronous")
        finally:
            await connection.close()

    async def promote(self) -> None:
        """Kill the primary while its standby lags, and let the standby take over.

        It is the sender that stands still: what it has sent the kernel delivers, also to a receiver that stood still.
        """
        standby = 1 - self._primary
        sender = await self._wal_sender()
        os.kill(sender, signal.SIGSTOP)
        await asyncio.sleep(POLL_SECONDS)  # sends that are under way now must not be answered
        await self.kill(signal.SIGKILL)
        os.kill(sender, signal.SIGKILL)
        await self._run("pg_ctl", "promote", "-D", self._data(standby), "-w")
        self._primary = standby

    async def _wal_sender(self) -> int:
        connection = await self._connect(self._primary)
        try:
            return int(await connection.fetchval("SELECT pid FROM pg_stat_replication"))
        finally:
            await connection.close()

    async def _streams(self, connection: asyncpg.Connection[asyncpg.Record], state: str = "%") -> bool:
        sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state LIKE $1"
        return bool(await connection.fetchval(sql, state))

    async def _connect(self, member: int) -> asyncpg.Connection[asyncpg.Record]:
        return await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{self._ports[member]}/postgres")

    async def _launch(self, member: int) -> None:
        log = self._data(member) / "server.log"
        port = f"-p {self._ports[member]}"
        await self._run("pg_ctl", "start", "-D", self._data(member), "-l", log, "-w", "-s", "-o", port)

    def _data(self, member: int) -> Path:
        return self._folder / str(member)

    def _pid(self, member: int) -> int | None:
        try:
            pid = int((self._data(member) / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError):
            return None
        return pid if lives(pid) else None

    async def _run(self, program: str, *arguments: str | Path) -> None:
        path = self._programs.bin(program)
        status = await asyncio.to_thread(self._user.run, [path, *arguments])
        if status:
            raise Unavailable(f"{program} failed with status {status} in {self._folder}; see its log there")
