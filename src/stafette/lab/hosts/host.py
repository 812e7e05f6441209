"""A machine as the runner sees it: the runner's end of the connection to an agent, and the agent's processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path, PurePath
from typing import Protocol, TypeVar

import msgspec

from stafette.errors import RequestTimeout, StafetteError, Unavailable
from stafette.lab.hosts import agent
from stafette.runs.records import FactsFound, Offset

Answer = TypeVar("Answer")

CLOCK_ROUNDS = 16
ANSWER_SECONDS = 30.0
"""How long an agent may take to answer a command."""


class ProcessFailed(StafetteError):
    """A process of a run ended too early."""


class Writer(Protocol):
    """The stream of commands to the agent."""

    def write(self, data: bytes) -> None:
        """Send bytes."""


class Reader(Protocol):
    """The stream of reports from the agent."""

    async def readline(self) -> bytes:
        """The next line; empty at the end."""


class Process:
    """A process on a machine."""

    def __init__(self, host: Host, name: str) -> None:
        self.name = name
        self.host = host
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._end: asyncio.Future[agent.ProcessEnded] = asyncio.get_running_loop().create_future()

    async def read_line(self, *, within: float) -> str:
        """The next line of its standard output."""
        try:
            async with asyncio.timeout(within):
                line = await self._lines.get()
        except TimeoutError as error:
            raise RequestTimeout(f"{self.name} printed nothing for {within:g} seconds; see its log") from error
        if line is None:
            self._lines.put_nowait(None)
            raise self._failure()
        return line

    def write_line(self, line: bytes) -> None:
        """Write a line to its standard input."""
        self.host.send(agent.WriteLine(self.name, line.decode()))

    def signal(self, name: str) -> None:
        """Send it a signal, such as TERM."""
        self.host.send(agent.SignalProcess(self.name, f"SIG{name}"))

    async def wait(self, *, within: float) -> int:
        """Wait for its end; returns the exit code."""
        try:
            async with asyncio.timeout(within):
                return (await asyncio.shield(self._end)).code
        except TimeoutError as error:
            raise RequestTimeout(f"{self.name} did not end within {within:g} seconds") from error

    async def fail_at_exit(self) -> None:
        """Raise ProcessFailed when it ends."""
        await asyncio.shield(self._end)
        raise self._failure()

    def handle_report(self, report: agent.OutputLine | agent.ProcessEnded) -> None:
        """Handle a report of the agent about this process."""
        if isinstance(report, agent.OutputLine):
            self._lines.put_nowait(report.line)
        else:
            self._lines.put_nowait(None)
            if not self._end.done():
                self._end.set_result(report)

    def _failure(self) -> ProcessFailed:
        end = self._end.result()
        exit_reason = f"was killed by signal {-end.code}" if end.code < 0 else f"ended with exit code {end.code}"
        last_line = f": {end.last_line.removeprefix('stafette: ')}" if end.last_line else ""
        return ProcessFailed(f"{self.name} {exit_reason}{last_line}; see its log")


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
        """The address at which other machines reach it."""
        self.folder = folder
        """Its folder for the series."""
        self.behaviours = behaviours
        """Its folder with the experiment's own behaviours."""
        self.ahead_ns = 0
        """How far its clock is ahead of ours."""
        self.samples: list[agent.Sample] = []
        """Samples of its processes since the list was last cleared."""
        self._python = python
        self._writer = writer
        self._hang_up = hang_up
        self._collect = collect
        self._processes: dict[str, Process] = {}
        self._clocks: dict[int, asyncio.Future[int]] = {}
        self._numbers = itertools.count(1)
        self._machine: asyncio.Future[FactsFound] | None = None
        self._disconnect_error: StafetteError | None = None
        self._listening = asyncio.create_task(self._listen(reader))

    @property
    def local(self) -> bool:
        """Whether it is this machine."""
        return self._collect is None

    def command(self, module: str, *arguments: str) -> list[str]:
        """The command that runs a module of Stafette there."""
        return [*self._python, "-m", module, *arguments]

    async def start(
        self, name: str, command: list[str], *, log: PurePath, environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start a process under a name; others on its machine see the command, but not the environment."""
        process = self._processes[name] = Process(self, name)
        self.send(agent.StartProcess(name, command, str(log), dict(environment or {})))
        return process

    async def run(self, name: str, command: list[str], *, log: PurePath, within: float) -> list[str]:
        """Run a command to its end; returns the lines of its standard output."""
        process = await self.start(name, command, log=log)
        lines: list[str] = []
        with contextlib.suppress(ProcessFailed):
            while True:
                lines.append(await process.read_line(within=within))
        if await process.wait(within=within) != 0:
            await process.read_line(within=0)  # raises ProcessFailed with the reason
        return lines

    async def clock_offset(self) -> Offset:
        """Compare the clocks: the quickest of several exchanges bounds the error by half its length."""
        best = Offset(0, 2**62)
        for _ in range(CLOCK_ROUNDS):
            number = next(self._numbers)
            answer = self._clocks[number] = asyncio.get_running_loop().create_future()
            before = time.time_ns()
            self.send(agent.ReadClock(number))
            theirs = await self._wait_for(answer)
            after = time.time_ns()
            if (error := (after - before) // 2) < best.error_ns:
                best = Offset(theirs - (before + after) // 2, error)
        return best

    async def describe(self) -> FactsFound:
        """What machine it is."""
        self._machine = asyncio.get_running_loop().create_future()
        self.send(agent.DescribeMachine())
        return await self._wait_for(self._machine)

    async def collect(self, folder: PurePath, into: Path) -> None:
        """Move a folder of the machine here; does nothing for this machine."""
        if self._collect is not None:
            await self._collect(folder, into)

    async def close(self) -> None:
        """Have the agent end all processes and itself."""
        await self._hang_up()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening

    def send(self, command: agent.Command) -> None:
        """Send the agent a command."""
        if self._disconnect_error is not None:
            raise self._disconnect_error
        with contextlib.suppress(ConnectionError):  # `_listen` notices the end of the reports
            self._writer.write(msgspec.json.encode(command) + b"\n")

    async def _wait_for(self, future: asyncio.Future[Answer]) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await future
        except TimeoutError as error:
            raise Unavailable(f"the agent on {self.name} does not answer") from error

    async def _listen(self, reader: Reader) -> None:
        try:
            while line := await reader.readline():
                self._handle_report(msgspec.json.decode(line, type=agent.Report))
        finally:
            self._disconnect_error = Unavailable(f"the connection to the agent on {self.name} has ended; see its log")
            for process in self._processes.values():
                process.handle_report(agent.ProcessEnded(process.name, -1, "the connection to its machine has ended"))
            for future in (*self._clocks.values(), self._machine):
                if future is not None and not future.done():
                    future.set_exception(self._disconnect_error)

    def _handle_report(self, report: agent.Report) -> None:
        match report:
            case agent.OutputLine(name) | agent.ProcessEnded(name):
                if name in self._processes:
                    self._processes[name].handle_report(report)
            case agent.Sample():
                self.samples.append(msgspec.structs.replace(report, at_ns=report.at_ns - self.ahead_ns))
            case agent.ClockReading(number, now_ns):
                self._clocks.pop(number).set_result(now_ns)
            case FactsFound() if self._machine is not None:
                self._machine.set_result(report)
