"""A machine as the runner sees it: an agent at the other end of two streams, and the processes it looks after."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePath
from typing import Protocol, TypeVar

import msgspec

from stafette.errors import RequestTimeout, StafetteError, Unavailable
from stafette.lab.hosts import agent as wire
from stafette.runs.records import FactsFound, Offset

Answer = TypeVar("Answer")

CLOCK_ROUNDS = 16
ANSWER_SECONDS = 30.0
"""How long an agent may take for what it answers itself."""


class ProcessFailed(StafetteError):
    """A process of a run ended before its time."""


class Writer(Protocol):
    """The part of a stream that takes orders."""

    def write(self, data: bytes) -> None:
        """Send bytes."""


class Reader(Protocol):
    """The part of a stream that brings reports."""

    async def readline(self) -> bytes:
        """The next line, or nothing at the end."""


class Process:
    """A process on a machine."""

    def __init__(self, host: Host, name: str) -> None:
        self.name = name
        self.host = host
        self._said: asyncio.Queue[str | None] = asyncio.Queue()
        self._ended: asyncio.Future[wire.Ended] = asyncio.get_running_loop().create_future()

    async def line(self, *, within: float) -> str:
        """The next line that it says."""
        try:
            async with asyncio.timeout(within):
                line = await self._said.get()
        except TimeoutError as error:
            raise RequestTimeout(f"{self.name} said nothing for {within:g} seconds; see its log") from error
        if line is None:
            self._said.put_nowait(None)
            raise self._failure()
        return line

    def tell(self, line: bytes) -> None:
        """Give it a line."""
        self.host.order(wire.Tell(self.name, line.decode()))

    def signal(self, name: str) -> None:
        """Send it a signal, such as TERM."""
        self.host.order(wire.Signal(self.name, f"SIG{name}"))

    async def ended(self, *, within: float) -> int:
        """Wait for its end; the exit code."""
        try:
            async with asyncio.timeout(within):
                return (await asyncio.shield(self._ended)).code
        except TimeoutError as error:
            raise RequestTimeout(f"{self.name} did not end within {within:g} seconds") from error

    async def fail_when_ended(self) -> None:
        """Raise when it ends; it should not."""
        await asyncio.shield(self._ended)
        raise self._failure()

    def hear(self, report: wire.Said | wire.Ended) -> None:
        """Take what the agent reports of it."""
        if isinstance(report, wire.Said):
            self._said.put_nowait(report.line)
        else:
            self._said.put_nowait(None)
            if not self._ended.done():
                self._ended.set_result(report)

    def _failure(self) -> ProcessFailed:
        ended = self._ended.result()
        how = f"was killed by signal {-ended.code}" if ended.code < 0 else f"ended with exit code {ended.code}"
        said = f": {ended.last_line.removeprefix('stafette: ')}" if ended.last_line else ""
        return ProcessFailed(f"{self.name} {how}{said}; see its log")


class Host:
    """A machine with an agent on it."""

    def __init__(
        self,
        name: str,
        *,
        address: str,
        folder: PurePath,
        behaviours: PurePath,
        python: list[str],
        reader: Reader,
        writer: Writer,
        hang_up: Callable[[], Awaitable[None]],
        collect: Callable[[PurePath, Path], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        """Where the others reach it."""
        self.folder = folder
        """Where it keeps what belongs to the series."""
        self.behaviours = behaviours
        """Where the experiment's own behaviours are."""
        self.ahead_ns = 0
        """How far its clock is ahead of ours."""
        self.samples: list[wire.Sampled] = []
        """What its processes have cost, since the list was last emptied."""
        self._python = python
        self._writer = writer
        self._hang_up = hang_up
        self._collect = collect
        self._processes: dict[str, Process] = {}
        self._clocks: dict[int, asyncio.Future[int]] = {}
        self._numbers = itertools.count(1)
        self._facts: asyncio.Future[FactsFound] | None = None
        self._gone: StafetteError | None = None
        self._listening = asyncio.create_task(self._listen(reader))

    @property
    def local(self) -> bool:
        """Whether it is this machine, and its folder ours."""
        return self._collect is None

    def command(self, module: str, *arguments: str) -> list[str]:
        """The command that runs a module of ours there."""
        return [*self._python, "-m", module, *arguments]

    async def start(self, name: str, command: list[str], *, log: PurePath) -> Process:
        """Start a process under a name."""
        process = self._processes[name] = Process(self, name)
        self.order(wire.Start(name, command, str(log)))
        return process

    async def run(self, name: str, command: list[str], *, log: PurePath, within: float) -> list[str]:
        """Run a command to its end; what it said."""
        process = await self.start(name, command, log=log)
        said: list[str] = []
        with contextlib.suppress(ProcessFailed):
            while True:
                said.append(await process.line(within=within))
        if await process.ended(within=within) != 0:
            await process.line(within=0)  # says why
        return said

    async def clock_offset(self) -> Offset:
        """Compare the clocks: the quickest of several exchanges bounds the error by half its length."""
        best = Offset(0, 2**62)
        for _ in range(CLOCK_ROUNDS):
            number = next(self._numbers)
            answer = self._clocks[number] = asyncio.get_running_loop().create_future()
            before = time.time_ns()
            self.order(wire.Clock(number))
            theirs = await self._answer(answer)
            after = time.time_ns()
            if (error := (after - before) // 2) < best.error_ns:
                best = Offset(theirs - (before + after) // 2, error)
        return best

    async def facts(self) -> FactsFound:
        """What machine it is."""
        self._facts = asyncio.get_running_loop().create_future()
        self.order(wire.Facts())
        return await self._answer(self._facts)

    async def collect(self, what: PurePath, into: Path) -> None:
        """Bring a folder of the machine here, and remove it there; nothing to do for this machine's own."""
        if self._collect is not None:
            await self._collect(what, into)

    async def close(self) -> None:
        """Let the agent end everything, and itself."""
        await self._hang_up()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening

    def order(self, order: wire.Order) -> None:
        """Give the agent an order."""
        if self._gone is not None:
            raise self._gone
        with contextlib.suppress(ConnectionError):  # the end of its reports will tell
            self._writer.write(msgspec.json.encode(order) + b"\n")

    async def _answer(self, future: asyncio.Future[Answer]) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await future
        except TimeoutError as error:
            raise Unavailable(f"the agent on {self.name} does not answer") from error

    async def _listen(self, reader: Reader) -> None:
        try:
            while line := await reader.readline():
                self._hear(msgspec.json.decode(line, type=wire.Report))
        finally:
            self._gone = Unavailable(f"the connection to the agent on {self.name} has ended; see its log")
            for process in self._processes.values():
                process.hear(wire.Ended(process.name, -1, "the connection to its machine has ended"))
            for future in (*self._clocks.values(), self._facts):
                if future is not None and not future.done():
                    future.set_exception(self._gone)

    def _hear(self, report: wire.Report) -> None:
        match report:
            case wire.Said(name) | wire.Ended(name):
                if name in self._processes:
                    self._processes[name].hear(report)
            case wire.Sampled():
                self.samples.append(msgspec.structs.replace(report, at_ns=report.at_ns - self.ahead_ns))
            case wire.ClockRead(number, now_ns):
                self._clocks.pop(number).set_result(now_ns)
            case FactsFound() if self._facts is not None:
                self._facts.set_result(report)
