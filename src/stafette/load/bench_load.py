"""What `stafette bench` runs: a mix of requests of the public asynchronous client, from one or several processes."""

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
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from stafette.client.aio import Client, connect
from stafette.errors import InvalidRequest, StafetteError
from stafette.load.generator import ClientGroup, Generator, Participant, gaps
from stafette.load.precise_timer import SECOND
from stafette.runs.percentiles import percentile

if TYPE_CHECKING:
    from stafette.trace import Trace

OPERATIONS = ("send", "broadcast", "receive", "lease", "peek", "request", "echo")
CONNECTING_AT_ONCE = 100
PROGRESS_SECONDS = 0.5
CLIENT_SECONDS = 60.0
"""The timeout of requests, and so how long those in flight at the end may take."""


@dataclass(frozen=True)
class Load:
    """The load to generate."""

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
    """The folder for a trace of every request; None: no trace."""


@dataclass
class Tally:
    """Counts and times of a load."""

    answered: Counter[str] = field(default_factory=Counter)
    """By operation; `empty` counts reads that returned nothing."""
    errors: Counter[str] = field(default_factory=Counter)
    response_seconds: array[float] = field(default_factory=lambda: array("d"))
    refusal_seconds: array[float] = field(default_factory=lambda: array("d"))
    """Times of the requests that failed, from when they were sent: how fast a broker refuses."""
    elapsed: float = 0.0

    def observe(self, result: object, intended: int, started: int) -> None:
        """Count a step that has just ended, by its operation or its error."""
        now = time.perf_counter_ns()
        if isinstance(result, StafetteError):
            self.errors[type(result).__name__] += 1
            self.refusal_seconds.append((now - started) / SECOND)
        else:
            self.answered[str(result)] += 1
            self.response_seconds.append((now - intended) / SECOND)

    def add(self, other: Tally) -> None:
        """Add the counts of another process, which ran at the same time."""
        self.answered += other.answered
        self.errors += other.errors
        self.response_seconds += other.response_seconds
        self.refusal_seconds += other.refusal_seconds
        self.elapsed = max(self.elapsed, other.elapsed)

    def summary(self, load: Load) -> dict[str, object]:
        """Rates, percentiles and error counts, as `stafette bench` prints them."""
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
            "p50_ms": _percentile_ms(times, 500),
            "p99_ms": _percentile_ms(times, 990),
            "max_ms": 1000 * times[-1] if times else None,
            "errors_p50_ms": _percentile_ms(sorted(self.refusal_seconds), 500),
            "clients": load.clients,
            "seconds": elapsed,
        }


def _percentile_ms(times: list[float], thousandths: int) -> float | None:
    return 1000 * percentile(times, thousandths) if times else None


class Worker:
    """One process's part of the load."""

    def __init__(self, load: Load, number: int, report: Callable[[int], None]) -> None:
        self._load = load
        self._number = number
        self._report = report
        self._rng = random.Random(load.seed * 1000 + number)  # noqa: S311
        self._queues = [f"bench-{queue}" for queue in range(load.queues)]
        self._names, self._weights = list(load.mix), list(load.mix.values())
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
            from stafette.trace import Trace  # pyarrow is installed with the laboratory only
        except ImportError as error:
            raise InvalidRequest(f"a trace needs {error.name}; install stafette[lab]") from error
        return Trace(self._load.trace, run="bench", tier="client", node=f"bench-{self._number + 1}")

    async def run(self, start: Callable[[], Awaitable[None]]) -> Tally:
        """Connect, wait for the start, generate the load, and count."""
        clients = await self._connect()
        responder = None
        if "request" in self._load.mix:
            responder_client = await connect(self._load.url, name=self._responder)  # before the first request
            responder = asyncio.create_task(self._respond(responder_client))
        generator = Generator(
            [self._group(clients)],
            seconds=self._load.seconds,
            window=(0.0, self._load.seconds),
            requests=lambda: len(self._tally.response_seconds),
            report=lambda progress: self._report(progress.requests),
            grace=CLIENT_SECONDS,
        )
        await start()
        started = time.perf_counter_ns()
        await generator.run(started)
        self._tally.elapsed = (time.perf_counter_ns() - started) / SECOND
        if responder is not None:
            responder.cancel()
        await asyncio.gather(*(client.close() for client in clients))
        if self._trace is not None:
            await asyncio.to_thread(self._trace.close)
        return self._tally

    def _group(self, clients: list[Client]) -> ClientGroup:
        return ClientGroup(
            "bench",
            [Participant(client.name, partial(self._step, client), self._rng) for client in clients],
            rate=self._load.rate and self._load.rate / self._load.clients,
            gaps=gaps("poisson", self._rng),
            observe=self._tally.observe,
        )

    async def _step(self, client: Client) -> str:
        """Send one request, drawn from the mix; returns its operation."""
        [name] = self._rng.choices(self._names, self._weights)
        return await self._operations[name](client, self._rng.choice(self._queues))

    async def _connect(self) -> list[Client]:
        numbers = range(self._number, self._load.clients, self._load.processes)
        at_once = asyncio.Semaphore(CONNECTING_AT_ONCE)

        async def connect_client(number: int) -> Client:
            async with at_once:
                name = f"bench-{os.getpid()}-{number}"
                return await connect(self._load.url, name=name, timeout=CLIENT_SECONDS, trace=self._trace)

        clients = list(await asyncio.gather(*(connect_client(number) for number in numbers)))
        for queue in self._queues:
            await clients[0].create_queue(queue, exist_ok=True)
        return clients

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

    async def _respond(self, client: Client) -> None:
        """Reply to the requests of this process."""
        async with client:
            while True:
                for message in await client.receive_many(f"@{client.name}", 100, wait=10.0):
                    await client.reply(message, message.body)


def run(load: Load, report: Callable[[int], None]) -> Tally:
    """Generate the load from child processes; `report` is called with the number of requests answered so far."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(load.processes)
    pipes: list[Connection] = []
    processes = []
    for number in range(load.processes):
        parent_end, child_end = context.Pipe()
        process = context.Process(target=_work, args=(load, number, child_end, barrier), daemon=True)
        process.start()
        child_end.close()
        pipes.append(parent_end)
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
                event = pipe.recv()
            except EOFError:
                raise StafetteError("a process of the load generator died; run with --debug to see why") from None
            if isinstance(event, int):
                counts[number] = event
                report(sum(counts))
            elif isinstance(event, StafetteError):
                raise event
            else:
                total.add(event)
                del open_pipes[number]
    return total


def _work(load: Load, number: int, pipe: Connection, barrier: object) -> None:
    async def start() -> None:
        await asyncio.get_running_loop().run_in_executor(None, barrier.wait)  # type: ignore[attr-defined]

    try:
        pipe.send(uvloop.run(Worker(load, number, pipe.send).run(start)))
    except StafetteError as error:
        with contextlib.suppress(OSError):
            pipe.send(error)
