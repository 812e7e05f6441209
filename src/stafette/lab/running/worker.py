"""One load process: ``python -m stafette.lab.running.worker``, driven over its standard streams (`worker_protocol`).

It ends with its runner: when its input ends, it ends, whatever its behaviours are doing. What they print goes to
standard error, so that standard output has only events.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import msgspec
import pydantic
import uvloop

from stafette.client.aio import Client, connect
from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.behaviours import Behaviour, ClientContext, check, find
from stafette.lab.experiment.distribution import Distribution
from stafette.lab.running.worker_protocol import (
    Event,
    Failed,
    Group,
    Job,
    LoadClient,
    Ready,
    Start,
    joined_by,
    joins_at,
    load_clients,
    read,
)
from stafette.load.direct import DirectConnections
from stafette.load.generator import ClientGroup, Generator, Participant, defect, gaps
from stafette.load.precise_timer import SECOND
from stafette.runs.records import Done
from stafette.trace import Trace

log = logging.getLogger(__name__)

AT_ONCE = 100
"""How many clients connect, begin or close at the same time."""

STOP_SECONDS = 1.5
"""How long we may take to stop when the runner is gone; then the process exits, even if a behaviour hangs."""

Send = Callable[[Event], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


class RunnerInput:
    """The lines from the runner, and their end.

    A thread reads them, so that we notice the end even while a behaviour blocks the event loop.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._stop = stop
        self.is_needed = True
        """False once the runner has received the last event, and may end."""
        threading.Thread(target=self._listen, name="runner", daemon=True).start()

    async def next_line(self) -> bytes:
        """The next line."""
        return await self._lines.get()

    def stop(self) -> None:
        """Stop the work, soon; may be called from any thread."""
        if self.is_needed:
            deadline = threading.Timer(STOP_SECONDS, os._exit, (1,))
            deadline.daemon = True
            deadline.start()
            self._loop.call_soon_threadsafe(self._stop)

    def _listen(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            with open(0, "rb", closefd=False) as lines:
                for line in lines:
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            self.stop()


class LoadClients:
    """All clients of this process, and their behaviours."""

    def __init__(self, job: Job, trace: Trace) -> None:
        self._job = job
        self._trace = trace
        groups = job.groups.items()
        self._behaviour_classes = {name: find(group.behaviour, Path(job.behaviours)) for name, group in groups}
        self._parameters = {name: _parameters(self._behaviour_classes[name], name, group) for name, group in groups}
        self._counts = {name: group.count for name, group in groups}
        self._load_clients = list(load_clients(job))
        self._clients: list[Client] = []
        self._direct: DirectConnections | None = None
        self._stack = AsyncExitStack()
        self.load_start = 0
        """The start of the load, by ``time.perf_counter_ns``."""

    def __len__(self) -> int:
        return len(self._load_clients)

    async def __aenter__(self) -> LoadClients:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._stack.aclose()

    async def connect_all(self) -> list[ClientGroup]:
        """Connect all clients and begin their behaviours."""
        direct = sum(self._behaviour_classes[load_client.group].direct for load_client in self._load_clients)
        if direct:
            connections = await DirectConnections.open(self._job.database, clients=direct, trace=self._trace)
            self._direct = await self._stack.enter_async_context(connections)
        self._stack.push_async_callback(self._close_clients)
        behaviours = await _for_each(self._load_clients, self._connect)
        await _for_each(behaviours, self._begin)
        return [
            self._client_group(name, [behaviour for behaviour in behaviours if behaviour.client_context.group == name])
            for name in self._job.groups
        ]

    async def _connect(self, load_client: LoadClient) -> Behaviour:
        behaviour_class = self._behaviour_classes[load_client.group]
        try:
            if behaviour_class.direct:
                assert self._direct is not None
                # It has the methods that such a behaviour needs.
                client = cast(Client, await self._direct.client(load_client.name))
            else:
                url = rotate_brokers(self._job.url, load_client.index)
                client = await connect(url, name=load_client.name, trace=self._trace)
        except StafetteError as error:
            raise type(error)(f"{load_client.name} could not connect: {error}") from error
        self._clients.append(client)
        rng = random.Random(f"{self._job.seed}:{load_client.name}")  # noqa: S311
        joined = self._joined_counter(self._job.groups[load_client.group])
        context = ClientContext(load_client.group, load_client.number, self._counts, self._job.queues, rng, joined)
        return behaviour_class(client, context, self._parameters[load_client.group])

    def _joined_counter(self, group: Group) -> Callable[[], int] | None:
        """A function that counts the clients of a group that have joined; None without a ramp."""
        if (ramp := group.ramp) is None:
            return None

        def count() -> int:
            return joined_by((time.perf_counter_ns() - self.load_start) / SECOND, ramp, group.count)

        return count

    async def _begin(self, behaviour: Behaviour) -> None:
        name = behaviour.client_context.name
        try:
            await behaviour.begin()
        except StafetteError as error:
            raise type(error)(f"{name} could not begin: {error}") from error
        except Exception as error:
            log.exception("%s could not begin", name)
            raise defect(self._job.groups[behaviour.client_context.group].behaviour, name, error) from error

    def _client_group(self, name: str, behaviours: Sequence[Behaviour]) -> ClientGroup:
        job, group = self._job, self._job.groups[name]
        rng = random.Random(f"{job.seed}:{name}:{job.worker}")  # noqa: S311
        return ClientGroup(
            group.behaviour,
            [
                _participant(behaviour, joins_at(behaviour.client_context.number, group.ramp))
                for behaviour in behaviours
            ],
            _think_time(name, group).draw,
            group.rate / group.count if group.rate and group.count else None,
            gaps(group.arrivals, rng, job.worker / job.workers),
        )

    async def _close_clients(self) -> None:
        async def close(client: Client) -> None:
            with contextlib.suppress(StafetteError):
                await client.close()

        await _for_each(self._clients, close)


def _parameters(behaviour_class: type[Behaviour], name: str, group: Group) -> Any:
    try:
        return check(behaviour_class, group.parameters)
    except pydantic.ValidationError as error:
        raise _invalid(f"clients.{name}", error) from error


def _participant(behaviour: Behaviour, at: float) -> Participant:
    return Participant(behaviour.client_context.name, behaviour.step, behaviour.client_context.rng, at)


def _think_time(name: str, group: Group) -> Distribution:
    adapter: pydantic.TypeAdapter[Distribution] = pydantic.TypeAdapter(Distribution)
    try:
        return adapter.validate_python(group.think_time)
    except pydantic.ValidationError as error:
        raise _invalid(f"clients.{name}.think_time", error) from error


def _invalid(path: str, error: pydantic.ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False)[0]
    return InvalidRequest(f"{'.'.join([path, *map(str, first['loc'])])}: {first['msg']}")


def rotate_brokers(url: str, turn: int) -> str:
    """The URL with its brokers rotated, so that clients, which try the first one first, are spread over all."""

    def rotate(match: re.Match[str]) -> str:
        brokers = match[0].split(",")
        first = turn % len(brokers)
        return ",".join(brokers[first:] + brokers[:first])

    return re.sub(r"(?<=://)[^/?#]+", rotate, url, count=1)


async def _for_each(items: Sequence[Item], work: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """Await `work` for each item, not too many at once; the first error ends it."""
    free = asyncio.Semaphore(AT_ONCE)

    async def work_when_free(item: Item) -> Result:
        async with free:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work_when_free(item)) for item in items]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def work(runner: RunnerInput, send: Send) -> Done:
    """Execute the job that the runner sends."""
    job = read(await runner.next_line(), Job)
    trace = Trace(Path(job.traces), run=job.run, tier="client", node=job.node, ahead_ns=job.clock_ahead_ns)
    try:
        async with LoadClients(job, trace) as clients:
            generator = Generator(
                await clients.connect_all(),
                seconds=job.seconds,
                window=job.window,
                requests=lambda: trace.rows + trace.dropped,
                report=send,
            )
            gc.collect()
            gc.freeze()  # or each collection during the run would visit what lives as long as the run
            send(Ready(len(clients)))
            start = read(await runner.next_line(), Start)
            clients.load_start = time.perf_counter_ns() + start.start_at_ns - time.time_ns()
            self_check = await generator.run(clients.load_start)
    finally:
        await asyncio.to_thread(trace.close)
    return Done(
        requests=trace.rows + trace.dropped,
        errors=dict(generator.errors),
        steps=generator.steps,
        cpu_share=self_check.cpu_share,
        starved_share=self_check.starved_share,
        late_ms=self_check.late,
        lag_ms=self_check.lag,
        rows=trace.rows,
        dropped=trace.dropped,
    )


async def serve(send: Send) -> int:
    """Work until done, stopped or failed; returns the exit code."""
    task = asyncio.current_task()
    assert task is not None
    runner = RunnerInput(task.cancel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.stop)
    try:
        done = await work(runner, send)
    except asyncio.CancelledError:
        return 1
    except StafetteError as error:
        runner.is_needed = False
        send(Failed(error.sentence))
        return 1
    except Exception as error:
        log.exception("the worker failed")
        runner.is_needed = False
        send(Failed(f"a load process failed: {type(error).__name__}: {error}; its log shows where"))
        return 1
    runner.is_needed = False
    send(done)
    return 0


def _reserve_stdout() -> BinaryIO:
    """Reserve standard output for events; what behaviours print goes to standard error."""
    events = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return events


def main() -> int:
    """Run one worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the runner decides
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    events, encode = _reserve_stdout(), msgspec.json.Encoder().encode

    def send(event: Event) -> None:
        with contextlib.suppress(BrokenPipeError):  # the runner is gone; the end of our input follows
            events.write(encode(event) + b"\n")

    return uvloop.run(serve(send))


if __name__ == "__main__":
    sys.exit(main())
