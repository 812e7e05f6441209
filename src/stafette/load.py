"""A load generator over the public asynchronous client: what `stafette bench` runs, in one or several processes.

Closed loop: each client sends its next request when the last is answered. Open loop: requests start when the clock
says, whether the last has been answered or not, and response times count from the intended start, so that a stalled
system cannot hide behind a stalled generator.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from stafette.client.aio import Client, connect
from stafette.errors import InvalidRequest, StafetteError

if TYPE_CHECKING:
    from stafette.trace import Trace

OPERATIONS = ("send", "broadcast", "receive", "lease", "peek", "request", "echo")
CONNECTING_AT_ONCE = 100
PROGRESS_SECONDS = 0.5


@dataclass(frozen=True)
class Load:
    """What to put on the system."""

    url: str
    clients: int = 64
    seconds: float = 10.0
    size: int = 200
    queues: int = 20
    mix: dict[str, float] = field(default_factory=lambda: {"send": 1.0, "receive": 1.0})
    rate: float | None = None
    """Requests per second over all clients; None is a closed loop."""
    processes: int = 1
    seed: int = 1
    trace: Path | None = None
    """The folder for a trace of every request, if one is wanted."""


@dataclass
class Tally:
    """What came of it."""

    answered: Counter[str] = field(default_factory=Counter)
    """By operation; `empty` counts reads that found nothing."""
    errors: Counter[str] = field(default_factory=Counter)
    response_seconds: array[float] = field(default_factory=lambda: array("d"))
    refusal_seconds: array[float] = field(default_factory=lambda: array("d"))
    """How long the errors took to come, from the moment the request left: a refusal is the broker's own doing."""
    elapsed: float = 0.0

    def add(self, other: Tally) -> None:
        """Put another process's figures to ours; they ran side by side."""
        self.answered += other.answered
        self.errors += other.errors
        self.response_seconds += other.response_seconds
        self.refusal_seconds += other.refusal_seconds
        self.elapsed = max(self.elapsed, other.elapsed)

    def summary(self, load: Load) -> dict[str, object]:
        """The figures people ask for."""
        times = sorted(self.response_seconds)
        elapsed = self.elapsed or 1.0
        return {
            "requests_per_second": len(times) / elapsed,
            "sends_per_second": self.answered["send"] / elapsed,
            "receives_per_second": self.answered["receive"] / elapsed,
            "empty_per_second": self.answered["empty"] / elapsed,
            "errors": self.errors.total(),
            "errors_by_name": dict(self.errors),
            "mean_ms": 1000 * sum(times) / len(times) if times else None,
            "p50_ms": _percentile(times, 0.50),
            "p99_ms": _percentile(times, 0.99),
            "max_ms": 1000 * times[-1] if times else None,
            "errors_p50_ms": _percentile(sorted(self.refusal_seconds), 0.50),
            "clients": load.clients,
            "seconds": elapsed,
        }


def _percentile(times: list[float], share: float) -> float | None:
    return 1000 * times[min(len(times) - 1, int(share * len(times)))] if times else None


class Worker:
    """One process's part of the load."""

    def __init__(self, load: Load, number: int, report: Callable[[int], None]) -> None:
        self._load = load
        self._number = number
        self._report = report
        self._random = random.Random(load.seed * 1000 + number)  # noqa: S311
        self._queues = [f"bench-{queue}" for queue in range(load.queues)]
        self._body = b"x" * load.size
        self._responder = f"bench-{os.getpid()}-responder"
        self._tally = Tally()
        self._trace = self._make_trace()
        self._operations: dict[str, Callable[[Client, str], Awaitable[str]]] = {
            "send": self._send,
            "broadcast": self._broadcast,
            "receive": self._receive,
            "lease": self._lease,
            "peek": self._peek,
            "request": self._request,
            "echo": self._echo,
        }

    def _make_trace(self) -> Trace | None:
        if self._load.trace is None:
            return None
        try:
            from stafette.trace import Trace  # what it needs is installed with the laboratory alone
        except ImportError as error:
            raise InvalidRequest(f"a trace needs {error.name}; install stafette[lab]") from error
        return Trace(self._load.trace, run="bench", tier="client", node=f"bench-{self._number + 1}")

    async def run(self, start: Callable[[], Awaitable[None]]) -> Tally:
        """Connect, wait for the start, put the load on, and count."""
        clients = await self._connect()
        responder = None
        if "request" in self._load.mix:
            responding = await connect(self._load.url, name=self._responder)  # before the first request
            responder = asyncio.create_task(self._respond(responding))
        await start()
        started = time.perf_counter()
        stop = started + self._load.seconds
        progress = asyncio.create_task(self._progress())
        if self._load.rate is None:
            await asyncio.gather(*(self._closed_loop(client, stop) for client in clients))
        else:
            await self._open_loop(clients, self._load.rate / self._load.processes, stop)
        self._tally.elapsed = time.perf_counter() - started
        for task in (progress, responder):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(client.close() for client in clients))
        if self._trace is not None:
            await asyncio.to_thread(self._trace.close)
        return self._tally

    async def _connect(self) -> list[Client]:
        share = range(self._number, self._load.clients, self._load.processes)
        at_once = asyncio.Semaphore(CONNECTING_AT_ONCE)

        async def one(number: int) -> Client:
            async with at_once:
                name = f"bench-{os.getpid()}-{number}"
                return await connect(self._load.url, name=name, timeout=60.0, trace=self._trace)

        clients = list(await asyncio.gather(*(one(number) for number in share)))
        for queue in self._queues:
            await clients[0].create_queue(queue, exist_ok=True)
        return clients

    async def _closed_loop(self, client: Client, stop: float) -> None:
        names, weights = list(self._load.mix), list(self._load.mix.values())
        while (now := time.perf_counter()) < stop:
            [name] = self._random.choices(names, weights)
            await self._measured(name, client, now)

    async def _open_loop(self, clients: list[Client], rate: float, stop: float) -> None:
        names, weights = list(self._load.mix), list(self._load.mix.values())
        under_way: set[asyncio.Task[None]] = set()
        intended = time.perf_counter()
        turn = 0
        while intended < stop:
            if (ahead := intended - time.perf_counter()) > 0:
                await asyncio.sleep(ahead)
            [name] = self._random.choices(names, weights)
            task = asyncio.create_task(self._measured(name, clients[turn % len(clients)], intended))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            turn += 1
            intended += self._random.expovariate(rate)
            if turn % 100 == 0:
                await asyncio.sleep(0)
        if under_way:
            await asyncio.wait(under_way)

    async def _measured(self, name: str, client: Client, intended: float) -> None:
        started = time.perf_counter()
        try:
            outcome = await self._operations[name](client, self._random.choice(self._queues))
        except StafetteError as error:
            self._tally.errors[type(error).__name__] += 1
            self._tally.refusal_seconds.append(time.perf_counter() - started)
        else:
            self._tally.answered[outcome] += 1
            self._tally.response_seconds.append(time.perf_counter() - intended)

    async def _send(self, client: Client, queue: str) -> str:
        await client.send(queue, self._body)
        return "send"

    async def _broadcast(self, client: Client, _queue: str) -> str:
        await client.send(self._queues, self._body)
        return "broadcast"

    async def _receive(self, client: Client, queue: str) -> str:
        return "receive" if await client.receive(queue) is not None else "empty"

    async def _lease(self, client: Client, queue: str) -> str:
        async with client.lease(queue) as work:
            return "lease" if work is not None else "empty"

    async def _peek(self, client: Client, queue: str) -> str:
        return "peek" if await client.peek(queue) is not None else "empty"

    async def _request(self, client: Client, _queue: str) -> str:
        await client.request(f"@{self._responder}", self._body, timeout=30.0)
        return "request"

    async def _echo(self, client: Client, _queue: str) -> str:
        await client.echo(self._body)
        return "echo"

    async def _respond(self, me: Client) -> None:
        """Reply to the requests of this process."""
        async with me:
            while True:
                for message in await me.receive_many(f"@{me.name}", 100, wait=10.0):
                    await me.reply(message, message.body)

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self._report(len(self._tally.response_seconds))


def run(load: Load, report: Callable[[int], None]) -> Tally:
    """Put the load on from its own processes; `report` hears how many requests have been answered so far."""
    context = multiprocessing.get_context("spawn")
    started = context.Barrier(load.processes)
    pipes: list[Connection] = []
    processes = []
    for number in range(load.processes):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(load, number, theirs, started), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return _gather(pipes, report)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _gather(pipes: list[Connection], report: Callable[[int], None]) -> Tally:
    total, counts = Tally(), [0] * len(pipes)
    open_pipes = dict(enumerate(pipes))
    while open_pipes:
        for number, pipe in list(open_pipes.items()):
            if not pipe.poll(PROGRESS_SECONDS):
                continue
            try:
                news = pipe.recv()
            except EOFError:
                raise StafetteError("a process of the load generator died; run with --debug to see why") from None
            if isinstance(news, int):
                counts[number] = news
                report(sum(counts))
            elif isinstance(news, StafetteError):
                raise news
            else:
                total.add(news)
                del open_pipes[number]
    return total


def _work(load: Load, number: int, pipe: Connection, started: object) -> None:
    async def start() -> None:
        await asyncio.get_running_loop().run_in_executor(None, started.wait)  # type: ignore[attr-defined]

    try:
        pipe.send(uvloop.run(Worker(load, number, pipe.send).run(start)))
    except StafetteError as error:
        with contextlib.suppress(OSError):
            pipe.send(error)
