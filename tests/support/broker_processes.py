"""Brokers as processes of their own, for tests that need something to kill. Waits are for what a broker says."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from stafette.broker import control
from tests.support.command_line import COMMAND, clean_environment, stafette, stafette_process
from tests.support.waiting import TIMEOUT_SECONDS


class BrokerProcess:
    """One `stafette broker`, with or without workers, and all it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lines: list[str] = []
        self._said = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen())
        self.url = ""

    @classmethod
    async def start(cls, *arguments: str) -> BrokerProcess:
        """Start it, and wait until it serves or has ended: then it has no URL."""
        process = await asyncio.create_subprocess_exec(
            COMMAND, "broker", *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=clean_environment(),
        )  # fmt: skip
        assert process.stdout is not None
        broker = cls(process)
        broker.url = (await process.stdout.readline()).decode().strip()
        return broker

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            async with self._said:
                self._lines.append(line.decode().rstrip("\n"))
                self._said.notify_all()
        async with self._said:
            self._said.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    async def says(self, pattern: str, *, times: int = 1) -> list[str]:
        """Wait until so many lines match; returns the first group of each."""

        def found() -> list[str]:
            return [match[1] for line in self._lines if (match := re.search(pattern, line))]

        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS), self._said:
                await self._said.wait_for(lambda: len(found()) >= times or self._listening.done())
        assert len(found()) >= times, f"the broker did not say {pattern!r} {times} times but\n{self.log}"
        return found()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def ended(self) -> int:
        """Wait until it, with all its workers, has ended; returns the exit code."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                code = await self._process.wait()
                await self._listening
        except TimeoutError as error:
            raise AssertionError(f"the broker does not end\n{self.log}") from error
        return code

    async def kill(self) -> None:
        """End it for good, whatever state it is in; its workers end by themselves."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        await self.ended()


class Brokers:
    """Starts brokers over one database and one data folder."""

    def __init__(self, database: str, data: Path) -> None:
        self._database = database
        self._started: list[BrokerProcess] = []
        self.data = data

    async def start(self, *arguments: str) -> BrokerProcess:
        """A broker that serves on a free port."""
        given = ("--database", self._database, "--data", str(self.data), "--port", "0", *arguments)
        broker = await BrokerProcess.start(*given)
        self._started.append(broker)
        assert broker.url, broker.log
        return broker

    async def ctl(self, command: str, *arguments: str) -> str:
        """What `stafette broker ctl` prints."""
        done = await asyncio.to_thread(stafette, "broker", "ctl", command, "--data", str(self.data), *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def status(self) -> dict[int, dict[str, Any]]:
        """What each broker process says of itself, by its id."""
        answers: list[Any] = await asyncio.to_thread(control.ask_all, self.data, "status")
        return {answer["pid"]: answer for answer in answers}

    async def kill_all(self) -> None:
        for broker in self._started:
            await broker.kill()


@asynccontextmanager
async def broker_processes(database: str, data: Path) -> AsyncIterator[Brokers]:
    """Brokers that end with the test."""
    brokers = Brokers(database, data)
    try:
        yield brokers
    finally:
        await brokers.kill_all()


async def run(*arguments: str) -> CompletedProcess[str]:
    """Run a command to its end as a process, while this loop goes on."""
    return await asyncio.to_thread(stafette_process, *arguments)
