"""The runner's hand on one machine: starts processes, passes lines to and from them, watches what they cost.

It speaks JSON lines on its standard streams, through a pipe or through SSH alike. The end of its input means that the
runner is gone, however that came about: then everything it started is ended, too, and so nothing is ever left running.

    runner → agent    Start  Tell  Signal  Watch  AtEnd  Clock  Facts
    agent → runner    Said  Ended  Sampled  ClockRead  FactsFound
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

from stafette.runs.records import FactsFound

SAMPLE_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""How long processes may take to end when they are told to, before they are killed."""
NOT_STARTED = 127
LINE_BYTES = 64 * 1024 * 1024


class Start(msgspec.Struct, frozen=True, tag=True):
    """Start a process; what it says on standard output comes back line by line, its errors go to the log."""

    name: str
    command: list[str]
    log: str


class Tell(msgspec.Struct, frozen=True, tag=True):
    """Give a process a line on its standard input."""

    name: str
    line: str


class Signal(msgspec.Struct, frozen=True, tag=True):
    """Send a signal to a process and to those it started."""

    name: str
    signal: str


class Watch(msgspec.Struct, frozen=True, tag=True):
    """Sample a process that somebody else started, with those it started."""

    name: str
    pid: int


class AtEnd(msgspec.Struct, frozen=True, tag=True):
    """Run a command when all processes have ended."""

    command: list[str]


class Clock(msgspec.Struct, frozen=True, tag=True):
    """Tell the time."""

    number: int


class Facts(msgspec.Struct, frozen=True, tag=True):
    """Tell what machine this is."""


Order = Start | Tell | Signal | Watch | AtEnd | Clock | Facts


class Said(msgspec.Struct, frozen=True, tag=True):
    """A process said a line."""

    name: str
    line: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A process ended; a negative code is the signal that killed it. The last line is of its log."""

    name: str
    code: int
    last_line: str = ""


class Cost(msgspec.Struct, frozen=True):
    """What a process has used so far, with those it started."""

    name: str
    pid: int
    cpu_seconds: float
    resident_bytes: int
    processes: int


class Sampled(msgspec.Struct, frozen=True, tag=True):
    """What all processes have used so far; the machine's share is of all its cores, since the last sample."""

    at_ns: int
    machine_cpu_share: float
    machine_memory_share: float
    costs: list[Cost]


class ClockRead(msgspec.Struct, frozen=True, tag=True):
    """The time here, in nanoseconds since the epoch."""

    number: int
    now_ns: int


Report = Said | Ended | Sampled | ClockRead | FactsFound


class Agent:
    """The processes on this machine."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._watched: dict[str, psutil.Process] = {}
        self._logs: dict[str, Path] = {}
        self._at_end: list[list[str]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, orders: asyncio.StreamReader) -> None:
        """Do what the runner says until it is gone; then end everything."""
        sampling = asyncio.create_task(self._sample())
        try:
            while line := await orders.readline():
                await self._do(msgspec.json.decode(line, type=Order))
        finally:
            sampling.cancel()
            await self._end()

    async def _do(self, order: Order) -> None:
        match order:
            case Start():
                await self._start(order)
            case Tell(name, line):
                process = self._processes.get(name)
                if process is not None and process.stdin is not None:
                    with contextlib.suppress(ConnectionError):
                        process.stdin.write(line.encode() + b"\n")
            case Signal(name, number):
                for process in self._family(name):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(signal.Signals[number])
            case Watch(name, pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._watched[name] = psutil.Process(pid)
            case AtEnd(command):
                self._at_end.append(command)
            case Clock(number):
                _say(ClockRead(number, time.time_ns()))
            case Facts():
                _say(_facts())

    async def _start(self, order: Start) -> None:
        log = Path(order.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._logs[order.name] = log
        errors = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            process = await asyncio.create_subprocess_exec(
                *order.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                limit=LINE_BYTES,
            )
        except OSError as error:
            _say(Ended(order.name, NOT_STARTED, str(error)))
            return
        finally:
            os.close(errors)
        self._processes[order.name] = process
        with contextlib.suppress(psutil.NoSuchProcess):
            self._watched[order.name] = psutil.Process(process.pid)
        task = asyncio.create_task(self._follow(order.name, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            _say(Said(name, line.decode(errors="replace").rstrip("\n")))
        code = await process.wait()
        self._processes.pop(name, None)
        self._watched.pop(name, None)
        _say(Ended(name, code, _last_line(self._logs[name])))

    # What it costs

    def _family(self, name: str) -> list[psutil.Process]:
        first = self._watched.get(name)
        if first is None:
            return []
        try:
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    async def _sample(self) -> None:
        psutil.cpu_percent()  # the first call sets the beginning
        due = time.monotonic()
        while True:
            due = max(due + SAMPLE_SECONDS, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            children = _children()
            costs = [cost for name in list(self._watched) if (cost := self._cost(name, children))]
            _say(Sampled(time.time_ns(), psutil.cpu_percent() / 100, psutil.virtual_memory().percent / 100, costs))

    def _cost(self, name: str, children: dict[int, list[psutil.Process]]) -> Cost | None:
        seconds, resident, pids = 0.0, 0, []
        family = [self._watched[name]]
        for process in family:
            family += children.get(process.pid, [])  # and theirs, as the list grows
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                # Those that it started and that have ended are in the children's times, the others among the family.
                seconds += times.user + times.system + times.children_user + times.children_system
                resident += process.memory_info().rss
                pids.append(process.pid)
        return Cost(name, pids[0], seconds, resident, len(pids)) if pids else None

    # The end

    async def _end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in [one for name in self._processes for one in self._family(name)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)  # one that is paused could not hear the other
                    process.send_signal(number)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
            if not self._processes:
                break
        for command in self._at_end:
            with contextlib.suppress(OSError):
                ended = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                await ended.wait()


def _children() -> dict[int, list[psutil.Process]]:
    """All processes by their parent. One look at the whole list costs as much as asking for one process's children."""
    found: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        found.setdefault(process.info["ppid"], []).append(process)
    return found


def _facts() -> FactsFound:
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


def _say(report: Report) -> None:
    with contextlib.suppress(OSError):  # the runner is gone, which the end of our input will tell
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


async def _main() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, orders.feed_eof)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # a Ctrl-C is for the runner, which then lets us go
    await Agent().run(orders)


if __name__ == "__main__":
    asyncio.run(_main())
