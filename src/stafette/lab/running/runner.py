"""The runner: makes the runs of a series, one after the other, each by the same method.

A run empties the database, starts the brokers, preloads, connects the load, warms up, measures, cools down, stops,
collects, sums up and checks. What goes wrong in it ends the run, not the series: it is kept with the reason, and the
next one begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

import msgspec

import stafette
from stafette.database import laboratory
from stafette.database.store import Store
from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.experiment import design
from stafette.lab.experiment.experiment_file import Experiment, Fault
from stafette.lab.hosts.host import Host, Process
from stafette.lab.hosts.machines import Hosts, reached
from stafette.lab.running import system, trace_rows, worker_protocol
from stafette.lab.running.sampling import Samples
from stafette.lab.running.summarise import per_second, summarise
from stafette.lab.running.verdict import Known, check, verdict
from stafette.lab.series.series_folder import Series, own_behaviours, settings
from stafette.load.generator import Progress as LoadProgress
from stafette.runs import records
from stafette.runs.closed_loop import closed_loop
from stafette.runs.layout import LOGS, RUN_FILE, SAMPLES, TRACES
from stafette.runs.records import Done, Machine, Messages, RunRecord, ThresholdResult
from stafette.runs.window import SECOND, Window

READY_SECONDS = 180.0
LEAD_SECONDS = 1.0
"""From the word to the start: time for it to reach every load process."""
SILENCE_SECONDS = 60.0
"""How long a load process may say nothing before it is given up; at the end it waits for its last answers."""

Phase = Literal["prepare", "warm-up", "measure", "cool-down", "check"]


@dataclass(frozen=True)
class Progress:
    """How far a series is."""

    run: str
    place: int
    """Of the run in the series, from 1."""
    runs: int
    phase: Phase
    seconds_left: float
    """Of the load of this run; before it begins, all of them."""
    later_seconds: float
    """Of the load of the runs after it."""
    requests: int = 0
    errors: int = 0
    throughput: float | None = None
    response_ms: float | None = None


Report = Callable[[Progress], None]


async def make(series: Series, report: Report) -> None:
    """Make all runs of a series that are not made yet."""
    experiment = series.experiment
    if experiment is None:
        raise InvalidRequest(f"series {series.name} was opened to be looked at; begin it with its experiment")
    async with series.locked() as lock:
        series.reopen()
        async with reached(experiment.hosts, series.folder, own_behaviours(experiment), lock=lock) as hosts:
            database = system.Database(
                hosts.database,
                choice=experiment.system.database,
                reachable_from_elsewhere=not all(host.local for host in hosts.all),
            )
            machines = [await _machine(host) for host in hosts.all]
            while (place := series.next_place(experiment)) is not None:
                await _Run(series, experiment, place, hosts, database, machines, report).make()
        shutil.rmtree(series.folder / "system", ignore_errors=True)
        series.record.state = "done" if all(run.state == "done" for run in series.record.runs) else "failed"
        series.record.ended_at = records.now()
        series.save()


async def _machine(host: Host) -> Machine:
    offset = await host.clock_offset()
    host.ahead_ns = offset.offset_ns
    return Machine(host.name, host.address, await host.facts(), offset)


class _Run:
    """One run in the making."""

    def __init__(
        self,
        series: Series,
        experiment: Experiment,
        place: int,
        hosts: Hosts,
        database: system.Database,
        machines: list[Machine],
        report: Report,
    ) -> None:
        planned = series.record.runs[place]
        [point] = [point for point in design.points(experiment) if point.label == planned.label]
        self._series = series
        self._planned = planned
        self._experiment = point.experiment
        self._hosts = hosts
        self._database = database
        self._folder = series.folder_for(place)
        self._samples = Samples()
        self._rates: dict[str, int] = {}
        """Requests in the last second, by load process."""
        self._report = report
        others = sum(run.state == "waiting" for run in series.record.runs) - 1
        self._progress = Progress(
            self._folder.name,
            place + 1,
            len(series.record.runs),
            "prepare",
            seconds_left=self._experiment.run.seconds,
            later_seconds=others * self._experiment.run.seconds,
        )
        self._record = RunRecord(
            id=f"{series.name}/{self._folder.name}",
            experiment=experiment.name,
            label=planned.label,
            levels=planned.levels,
            repetition=planned.repetition,
            state="running",
            seed=random.Random(f"{experiment.seed}:{planned.label}:{planned.repetition}").getrandbits(32),  # noqa: S311
            settings=settings(self._experiment),
            design=experiment.design.kind,
            stafette=stafette.__version__,
            revision=records.revision(),
            started_at=records.now(),
            machines=machines,
        )

    async def make(self) -> None:
        """Make the run, and write down what came of it."""
        self._planned.folder = self._folder.name
        self._mark("running")
        try:
            await self._do()
        except asyncio.CancelledError:
            self._record.why = "it was broken off"
            self._mark("interrupted")
            raise
        except (StafetteError, OSError) as error:
            self._record.why = str(error)
            working = asyncio.current_task()
            if working is not None and working.cancelling():  # it went wrong while it was being broken off
                self._mark("interrupted")
                raise asyncio.CancelledError from error
            self._mark("failed")
        else:
            self._mark("done")

    def _mark(self, state: records.State) -> None:
        self._record.state = self._planned.state = state
        if state != "running":
            self._record.ended_at = records.now()
        records.write(self._folder / RUN_FILE, self._record)
        self._series.save()

    # The method

    async def _do(self) -> None:
        self._tell("prepare")
        url = await self._database.emptied(self._on(self._hosts.database) / LOGS)
        try:
            async with await Store.open(url, connections=2) as store:
                preloaded = await system.preload(store, self._experiment)
                self._record.database = await laboratory.settle(url)
                async with self._brokers(url) as (brokers, brokers_url), self._workers(url, brokers_url) as workers:
                    await self._measure(store, brokers, workers)
                overview = await store.monitoring.overview()
                left = overview.ready + overview.leased + overview.delayed + overview.dead
                self._record.messages = Messages(preloaded, left)
        finally:
            await self._collect()
        self._tell("check")
        await asyncio.to_thread(self._conclude)

    @contextlib.asynccontextmanager
    async def _brokers(self, database: str) -> AsyncIterator[tuple[list[Process], str]]:
        async with system.brokers(
            self._hosts, self._experiment, database, run=self._record.id, folder=self._on
        ) as found:
            self._record.processes |= {process.name: process.host.name for process in found[0]}
            yield found

    @contextlib.asynccontextmanager
    async def _workers(self, database: str, url: str) -> AsyncIterator[list[Process]]:
        """The load processes, all clients connected."""
        each = self._experiment.system.load_processes
        places = [host for host in self._hosts.clients for _ in range(each)]
        workers: list[Process] = []
        try:
            for number, host in enumerate(places):
                name = f"load-{number + 1}"
                log = self._on(host) / LOGS / f"{name}.log"
                worker = await host.start(name, host.command("stafette.lab.running.worker"), log=log)
                workers.append(worker)
                worker.tell(msgspec.json.encode(self._job(host, name, number, len(places), database, url)))
                self._record.processes[name] = host.name
            for worker in workers:
                _expect(worker_protocol.Ready, worker, await worker.line(within=READY_SECONDS))
            yield workers
        finally:
            for worker in workers:
                worker.signal("TERM")
            for worker in workers:
                await worker.ended(within=system.STOP_SECONDS)

    def _job(self, host: Host, name: str, number: int, workers: int, database: str, url: str) -> worker_protocol.Job:
        run = self._experiment.run
        groups = {name: group.model_dump(mode="json") for name, group in self._experiment.clients.items()}
        return worker_protocol.Job(
            run=self._record.id,
            seed=self._record.seed,
            worker=number,
            workers=workers,
            node=name,
            traces=str(self._on(host) / TRACES),
            seconds=run.seconds,
            window=(run.warm_up, run.warm_up + run.duration),
            groups=msgspec.convert(groups, dict[str, worker_protocol.Group]),
            url=url,
            database=database,
            behaviours=str(host.behaviours),
            queues=tuple(self._experiment.preload.names),
            clock_ahead_ns=host.ahead_ns,
        )

    async def _measure(self, store: Store, brokers: list[Process], workers: list[Process]) -> None:
        """Let the load begin, and wait for its end."""
        run = self._experiment.run
        start = time.time_ns() + int(LEAD_SECONDS * SECOND)
        self._record.load = Window(start, start + int(run.seconds * SECOND))
        measured = start + int(run.warm_up * SECOND)
        self._record.window = Window(measured, measured + int(run.duration * SECOND))
        for host in self._hosts.all:
            host.samples.clear()
        for worker in workers:
            worker.tell(msgspec.json.encode(worker_protocol.Start(start + worker.host.ahead_ns)))
        async with self._samples.taken(store), _together() as tasks:
            watches = [tasks.create_task(broker.fail_when_ended()) for broker in brokers]
            for fault in self._experiment.faults:
                tasks.create_task(self._inflict(fault, brokers, start))
            told: dict[str, LoadProgress] = {}
            followed = [tasks.create_task(self._follow(worker, told)) for worker in workers]
            self._record.workers = {worker.name: await task for worker, task in zip(workers, followed, strict=True)}
            for watch in watches:
                watch.cancel()

    async def _follow(self, worker: Process, told: dict[str, LoadProgress]) -> Done:
        """Hear a load process out."""
        while True:
            event = _read(worker, await worker.line(within=SILENCE_SECONDS))
            match event:
                case LoadProgress():
                    before = told.get(worker.name)
                    self._rates[worker.name] = event.requests - (before.requests if before else 0)
                    told[worker.name] = event
                    self._hear(told)
                case Done():
                    return event
                case _:
                    raise StafetteError(f"{worker.name} said {type(event).__name__} when its load was under way")

    async def _inflict(self, fault: Fault, brokers: list[Process], start: int) -> None:
        """Let a process stand still for a while."""
        pause = {process.name: process.signal for process in brokers} | {"database": self._database.signal}
        await asyncio.sleep((start - time.time_ns()) / SECOND + fault.at)
        began = time.time_ns()
        pause[fault.pause]("STOP")
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            pause[fault.pause]("CONT")
        self._record.faults.append({"pause": fault.pause, "start_ns": began, "end_ns": time.time_ns()})

    async def _collect(self) -> None:
        self._samples.write(self._folder / SAMPLES, self._hosts.all)
        for host in self._hosts.all:
            await host.collect(self._on(host), self._folder)
        for machine, host in zip(self._record.machines, self._hosts.all, strict=True):
            machine.clock_after = await host.clock_offset()

    def _conclude(self) -> None:
        """Sum up, check, and compare with the thresholds."""
        record = self._record
        assert record.window is not None
        assert record.load is not None
        rows = trace_rows.read(self._folder / TRACES)
        record.summary = summarise(rows, record.window)
        record.per_second = per_second(rows, record.load)
        steps = sum(worker.steps for worker in record.workers.values())
        record.closed_loop = closed_loop(record.settings, steps / record.load.seconds)
        record.checks = check(rows, record.summary, self._known())
        record.verdict = verdict(record.checks)
        record.thresholds = [
            ThresholdResult(metric, str(threshold), value := record.summary.metric(metric), threshold.holds(value))
            for metric, threshold in self._experiment.thresholds.items()
        ]

    def _known(self) -> Known:
        groups = self._experiment.clients
        wanted = self._experiment.system
        assert self._record.messages is not None
        return Known(
            nodes=[*self._record.workers, *system.nodes(wanted)],
            preloaded=self._record.messages.preloaded,
            left=self._record.messages.left,
            workers=self._record.workers,
            rates={name: group.rate for name, group in groups.items() if group.rate and not group.ramp},
            closed_loop=self._record.closed_loop,
            brokers=wanted.brokers > 0,
            faults=bool(self._experiment.faults),
        )

    # Small things

    def _on(self, host: Host) -> PurePath:
        """This run's folder on a machine."""
        return self._folder if host.local else host.folder / self._folder.name

    def _hear(self, told: dict[str, LoadProgress]) -> None:
        """Put together what the load processes say."""
        assert self._record.load is not None
        run = self._experiment.run
        elapsed = (time.time_ns() - self._record.load.start_ns) / SECOND
        phase: Phase = "warm-up" if elapsed < run.warm_up else "measure"
        if elapsed >= run.warm_up + run.duration:
            phase = "cool-down"
        times = [progress.response_ms for progress in told.values() if progress.response_ms is not None]
        self._progress = replace(
            self._progress,
            seconds_left=max(0.0, run.seconds - elapsed),
            requests=sum(progress.requests for progress in told.values()),
            errors=sum(progress.errors for progress in told.values()),
            throughput=sum(self._rates.values()),
            response_ms=sum(times) / len(times) if times else None,
        )
        self._tell(phase)

    def _tell(self, phase: Phase) -> None:
        self._progress = replace(self._progress, phase=phase)
        self._report(self._progress)


@contextlib.asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """Tasks that end together; the first error of any of them is the error."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _read(worker: Process, line: str) -> worker_protocol.Event:
    try:
        event: worker_protocol.Event = msgspec.json.decode(line, type=worker_protocol.Event)
    except msgspec.MsgspecError as error:
        raise StafetteError(f"{worker.name} said what is no event: {error}") from error
    if isinstance(event, worker_protocol.Failed):
        raise StafetteError(f"{worker.name}: {event.sentence}")
    return event


def _expect(kind: type[worker_protocol.Event], worker: Process, line: str) -> None:
    event = _read(worker, line)
    if not isinstance(event, kind):
        raise StafetteError(f"{worker.name} said {type(event).__name__} where {kind.__name__} was due")
