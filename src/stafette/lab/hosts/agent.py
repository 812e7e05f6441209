"""The runner's agent on one machine: starts processes, passes lines to and from them, samples what they use.

It reads and writes JSON lines on its standard streams, through a pipe or through SSH. The end of its input means that
the runner is gone for whatever reason. The agent then ends everything it started, so nothing is left running.

    runner → agent    StartProcess  WriteLine  SignalProcess  WatchProcess  RunAtExit  ReadClock  DescribeMachine
    agent → runner    OutputLine  ProcessEnded  Sample  ClockReading  FactsFound
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import socket
import sys
import time
from pathlib import Path

import msgspec
import psutil

from stafette.files import keep_private
from stafette.runs.records import FactsFound

SAMPLE_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""How long processes may take to end after SIGTERM, before they are killed."""
NOT_STARTED = 127
LINE_BYTES = 64 * 1024 * 1024


class StartProcess(msgspec.Struct, frozen=True, tag=True):
    """Start a process; its standard output comes back line by line, its errors go to the log.

    What is secret is in its environment, which only its own user can read, not in its command.
    """

    name: str
    command: list[str]
    log: str
    environment: dict[str, str] = {}


class WriteLine(msgspec.Struct, frozen=True, tag=True):
    """Write a line to the standard input of a process."""

    name: str
    line: str


class SignalProcess(msgspec.Struct, frozen=True, tag=True):
    """Send a signal to a process and its children."""

    name: str
    signal: str


class WatchProcess(msgspec.Struct, frozen=True, tag=True):
    """Sample a process that the agent did not start, and its children."""

    name: str
    pid: int


class RunAtExit(msgspec.Struct, frozen=True, tag=True):
    """Run a command when all processes have ended."""

    command: list[str]


class ReadClock(msgspec.Struct, frozen=True, tag=True):
    """Report the time."""

    number: int


class DescribeMachine(msgspec.Struct, frozen=True, tag=True):
    """Report what machine this is."""


Command = StartProcess | WriteLine | SignalProcess | WatchProcess | RunAtExit | ReadClock | DescribeMachine


class OutputLine(msgspec.Struct, frozen=True, tag=True):
    """A process wrote a line to its standard output."""

    name: str
    line: str


class ProcessEnded(msgspec.Struct, frozen=True, tag=True):
    """A process ended; a negative code is the signal that killed it. The last line is that of its log."""

    name: str
    code: int
    last_line: str = ""


class Cost(msgspec.Struct, frozen=True):
    """What a process and its children have used so far."""

    name: str
    pid: int
    cpu_seconds: float
    resident_bytes: int
    processes: int


class Sample(msgspec.Struct, frozen=True, tag=True):
    """What all processes have used so far; the machine's share is of all its cores, since the last sample."""

    at_ns: int
    machine_cpu_share: float
    machine_memory_share: float
    costs: list[Cost]


class ClockReading(msgspec.Struct, frozen=True, tag=True):
    """The time here, in nanoseconds since the epoch."""

    number: int
    now_ns: int


Report = OutputLine | ProcessEnded | Sample | ClockReading | FactsFound


class Agent:
    """The processes on this machine."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._watched: dict[str, psutil.Process] = {}
        self._logs: dict[str, Path] = {}
        self._exit_commands: list[list[str]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, commands: asyncio.StreamReader) -> None:
        """Execute the runner's commands until their end; then end everything."""
        sampling = asyncio.create_task(self._sample())
        try:
            while line := await commands.readline():
                await self._execute(msgspec.json.decode(line, type=Command))
        finally:
            sampling.cancel()
            await self._end_all()

    async def _execute(self, command: Command) -> None:
        match command:
            case StartProcess():
                await self._start(command)
            case WriteLine(name, line):
                process = self._processes.get(name)
                if process is not None and process.stdin is not None:
                    with contextlib.suppress(ConnectionError):
                        process.stdin.write(line.encode() + b"\n")
            case SignalProcess(name, signal_name):
                for process in self._process_tree(name):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(signal.Signals[signal_name])
            case WatchProcess(name, pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._watched[name] = psutil.Process(pid)
            case RunAtExit(exit_command):
                self._exit_commands.append(exit_command)
            case ReadClock(number):
                _send(ClockReading(number, time.time_ns()))
            case DescribeMachine():
                _send(_describe_machine())

    async def _start(self, start: StartProcess) -> None:
        log = Path(start.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._logs[start.name] = log
        errors = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                *start.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=os.environ | start.environment,
                start_new_session=True,
                limit=LINE_BYTES,
            )
        except OSError as error:
            _send(ProcessEnded(start.name, NOT_STARTED, str(error)))
            return
        finally:
            os.close(errors)
        self._processes[start.name] = process
        with contextlib.suppress(psutil.NoSuchProcess):
            self._watched[start.name] = psutil.Process(process.pid)
        task = asyncio.create_task(self._forward_output(start.name, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward_output(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            _send(OutputLine(name, line.decode(errors="replace").rstrip("\n")))
        code = await process.wait()
        self._processes.pop(name, None)
        self._watched.pop(name, None)
        _send(ProcessEnded(name, code, _last_line(self._logs[name])))

    # Samples

    def _process_tree(self, name: str) -> list[psutil.Process]:
        root = self._watched.get(name)
        if root is None:
            return []
        try:
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    async def _sample(self) -> None:
        psutil.cpu_percent()  # the first call starts the interval
        due = time.monotonic()
        while True:
            due = max(due + SAMPLE_SECONDS, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            children = _children_by_parent()
            costs = [cost for name in list(self._watched) if (cost := self._cost(name, children))]
            _send(Sample(time.time_ns(), psutil.cpu_percent() / 100, psutil.virtual_memory().percent / 100, costs))

    def _cost(self, name: str, children: dict[int, list[psutil.Process]]) -> Cost | None:
        seconds, resident, pids = 0.0, 0, []
        tree = [self._watched[name]]
        for process in tree:
            tree += children.get(process.pid, [])  # the loop goes on with these
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                # Children that have ended are in the children's times; the others are in the tree.
                seconds += times.user + times.system + times.children_user + times.children_system
                resident += process.memory_info().rss
                pids.append(process.pid)
        return Cost(name, pids[0], seconds, resident, len(pids)) if pids else None

    # The end

    async def _end_all(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in [process for name in self._processes for process in self._process_tree(name)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)  # a paused process would not handle SIGTERM
                    process.send_signal(number)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
            if not self._processes:
                break
        for command in self._exit_commands:
            with contextlib.suppress(OSError):
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                await process.wait()


def _children_by_parent() -> dict[int, list[psutil.Process]]:
    """All processes by their parent. Listing all costs as much as listing the children of one process."""
    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
    return children


def _describe_machine() -> FactsFound:
    return FactsFound(
        socket.gethostname(),
        f"{platform.system()} {platform.release()}",
        platform.machine(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        psutil.virtual_memory().total,
        platform.python_version(),
    )


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""


def _send(report: Report) -> None:
    with contextlib.suppress(OSError):  # the runner is gone; the end of our input follows
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


async def _main() -> None:
    keep_private()
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, commands.feed_eof)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # a Ctrl-C is for the runner, which then closes our input
    await Agent().run(commands)


if __name__ == "__main__":
    asyncio.run(_main())
