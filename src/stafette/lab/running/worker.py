"""One load process: ``python -m stafette.lab.running.worker``, driven over its standard input and output (see `job`).

It lives no longer than its runner: when its input ends, it ends, whatever its behaviours are doing. What they print
goes to standard error, so that nothing but events is on standard output.
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
    Place,
    Ready,
    Start,
    joined_by,
    joins_at,
    places,
    read,
)
from stafette.load.direct import DirectConnections
from stafette.load.generator import ClientGroup, Generator, Participant, defect, gaps
from stafette.load.precise_timer import SECOND
from stafette.runs.records import Done
from stafette.trace import Trace

log = logging.getLogger(__name__)

AT_ONCE = 100
"""How many clients connect, begin or hang up at the same time."""

STOP_SECONDS = 1.5
"""How long we may take to stop when the runner is gone; then we are gone too, even if a behaviour hangs."""

Say = Callable[[Event], None]
Thing = TypeVar("Thing")
Result = TypeVar("Result")


class Runner:
    """What comes from the runner: lines, and at last its end.

    A thread reads them, so that the end is noticed even while a behaviour holds up the event loop.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._stop = stop
        self.needed = True
        """False once the runner has heard all and may go."""
        threading.Thread(target=self._listen, name="runner", daemon=True).start()

    async def says(self) -> bytes:
        """The next line."""
        return await self._lines.get()

    def stop(self) -> None:
        """End what we do, soon. Any thread may ask for it."""
        if self.needed:
            deadline = threading.Timer(STOP_SECONDS, os._exit, (1,))
            deadline.daemon = True
            deadline.start()
            self._loop.call_soon_threadsafe(self._stop)

    def _listen(self) -> None:
        with contextlib.suppress(RuntimeError):  # of a loop that has closed meanwhile
            with open(0, "rb", closefd=False) as lines:
                for line in lines:
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            self.stop()


class LoadClients:
    """All clients of this process, connected, and what they are to do."""

    def __init__(self, job: Job, trace: Trace) -> None:
        self._job = job
        self._trace = trace
        self._kinds = {name: find(group.behaviour, Path(job.behaviours)) for name, group in job.groups.items()}
        self._parameters = {name: _parameters(self._kinds[name], name, group) for name, group in job.groups.items()}
        self._counts = {name: group.count for name, group in job.groups.items()}
        self._places = list(places(job))
        self._clients: list[Client] = []
        self._direct: DirectConnections | None = None
        self._stack = AsyncExitStack()
        self.begun = 0
        """When the load began, by ``time.perf_counter_ns``."""

    def __len__(self) -> int:
        return len(self._places)

    async def __aenter__(self) -> LoadClients:
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._stack.aclose()

    async def gather(self) -> list[ClientGroup]:
        """Connect all clients and let them begin."""
        direct = sum(self._kinds[place.group].direct for place in self._places)
        if direct:
            opening = DirectConnections.open(self._job.database, clients=direct, trace=self._trace)
            self._direct = await self._stack.enter_async_context(await opening)
        self._stack.push_async_callback(self._hang_up)
        behaviours = await _all(self._places, self._enter)
        await _all(behaviours, self._begin)
        return [
            self._client_group(name, [behaviour for behaviour in behaviours if behaviour.client_context.group == name])
            for name in self._job.groups
        ]

    async def _enter(self, place: Place) -> Behaviour:
        kind = self._kinds[place.group]
        try:
            if kind.direct:
                assert self._direct is not None
                client = cast(Client, await self._direct.client(place.name))  # as far as such a behaviour needs it
            else:
                url = starting_with(self._job.url, place.index)
                client = await connect(url, name=place.name, trace=self._trace)
        except StafetteError as error:
            raise type(error)(f"{place.name} could not connect: {error}") from error
        self._clients.append(client)
        rng = random.Random(f"{self._job.seed}:{place.name}")  # noqa: S311
        joined = self._joined(self._job.groups[place.group])
        client_context = ClientContext(place.group, place.number, self._counts, self._job.queues, rng, joined)
        return kind(client, client_context, self._parameters[place.group])

    def _joined(self, group: Group) -> Callable[[], int] | None:
        """How many clients of a group its ramp has let in by now."""
        if (ramp := group.ramp) is None:
            return None

        def count() -> int:
            return joined_by((time.perf_counter_ns() - self.begun) / SECOND, ramp, group.count)

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

    async def _hang_up(self) -> None:
        async def close(client: Client) -> None:
            with contextlib.suppress(StafetteError):
                await client.close()

        await _all(self._clients, close)


def _parameters(kind: type[Behaviour], name: str, group: Group) -> Any:
    try:
        return check(kind, group.parameters)
    except pydantic.ValidationError as error:
        raise _wrong(f"clients.{name}", error) from error


def _participant(behaviour: Behaviour, at: float) -> Participant:
    return Participant(behaviour.client_context.name, behaviour.step, behaviour.client_context.rng, at)


def _think_time(name: str, group: Group) -> Distribution:
    adapter: pydantic.TypeAdapter[Distribution] = pydantic.TypeAdapter(Distribution)
    try:
        return adapter.validate_python(group.think_time)
    except pydantic.ValidationError as error:
        raise _wrong(f"clients.{name}.think_time", error) from error


def _wrong(where: str, error: pydantic.ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False)[0]
    return InvalidRequest(f"{'.'.join([where, *map(str, first['loc'])])}: {first['msg']}")


def starting_with(url: str, turn: int) -> str:
    """The URL with its brokers turned round, so that clients who take the first are spread over all."""

    def turned(match: re.Match[str]) -> str:
        brokers = match[0].split(",")
        first = turn % len(brokers)
        return ",".join(brokers[first:] + brokers[:first])

    return re.sub(r"(?<=://)[^/?#]+", turned, url, count=1)


async def _all(things: Sequence[Thing], work: Callable[[Thing], Awaitable[Result]]) -> list[Result]:
    """Do something with each, not too many at once; the first error ends it."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(thing: Thing) -> Result:
        async with free:
            return await work(thing)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(thing)) for thing in things]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def work(runner: Runner, say: Say) -> Done:
    """Do what the runner asks."""
    job = read(await runner.says(), Job)
    trace = Trace(Path(job.traces), run=job.run, tier="client", node=job.node, ahead_ns=job.clock_ahead_ns)
    try:
        async with LoadClients(job, trace) as clients:
            generator = Generator(
                await clients.gather(),
                seconds=job.seconds,
                window=job.window,
                requests=lambda: trace.rows + trace.dropped,
                report=say,
            )
            gc.collect()
            gc.freeze()  # what lives as long as the run need not be looked at again and again during it
            say(Ready(len(clients)))
            start = read(await runner.says(), Start)
            clients.begun = time.perf_counter_ns() + start.start_at_ns - time.time_ns()
            self_check = await generator.run(clients.begun)
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


async def serve(say: Say) -> int:
    """Work until done, stopped, or at one's wits' end; returns the exit code."""
    working = asyncio.current_task()
    assert working is not None
    runner = Runner(working.cancel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.stop)
    try:
        done = await work(runner, say)
    except asyncio.CancelledError:
        return 1
    except StafetteError as error:
        runner.needed = False
        say(Failed(error.sentence))
        return 1
    except Exception as error:
        log.exception("the worker failed")
        runner.needed = False
        say(Failed(f"a load process failed: {type(error).__name__}: {error}; its log shows where"))
        return 1
    runner.needed = False
    say(done)
    return 0


def _only_events() -> BinaryIO:
    """Take standard output for ourselves and send what others print to standard error."""
    events = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return events


def main() -> int:
    """Run one worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the runner decides
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    events, encode = _only_events(), msgspec.json.Encoder().encode

    def say(event: Event) -> None:
        with contextlib.suppress(BrokenPipeError):  # then the end of our input is about to tell us
            events.write(encode(event) + b"\n")

    return uvloop.run(serve(say))


if __name__ == "__main__":
    sys.exit(main())
