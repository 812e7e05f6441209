"""The runner: executes the runs of a series, one after the other, each by the same method.

A run empties the database, starts the brokers, preloads, connects the load clients, warms up, measures, cools down,
stops, collects, summarises and checks. An error ends the run, not the series: its record has the reason, and the next
run begins.
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
from stafette.lab.hosts.machines import Hosts, connect_hosts
from stafette.lab.running import system, trace_rows, worker_protocol
from stafette.lab.running.sampling import Samples
from stafette.lab.running.summarise import per_second, summarise
from stafette.lab.running.verdict import RunContext, check, verdict
from stafette.lab.series.series_folder import Series, own_behaviours, settings
from stafette.load.generator import Progress as LoadProgress
from stafette.runs import records
from stafette.runs.closed_loop import closed_loop
from stafette.runs.layout import LOGS, RUN_FILE, SAMPLES, TRACES
from stafette.runs.records import Done, Machine, Messages, RunRecord, ThresholdResult
from stafette.runs.window import SECOND, Window

READY_SECONDS = 180.0
LEAD_SECONDS = 1.0
"""From the Start message to the start of the load: time to reach every load process."""
SILENCE_SECONDS = 60.0
"""How long a load process may report nothing before its run fails; at the end it waits for its last answers."""

Phase = Literal["prepare", "warm-up", "measure", "cool-down", "check"]


@dataclass(frozen=True)
class Progress:
    """How far a series is."""

    run: str
    place: int
    """The run's position in the series, from 1."""
    runs: int
    phase: Phase
    seconds_left: float
    """Of the load of this run; before it begins, its whole length."""
    later_seconds: float
    """Of the load of the runs after it."""
    requests: int = 0
    errors: int = 0
    throughput: float | None = None
    response_ms: float | None = None


Report = Callable[[Progress], None]


async def run_series(series: Series, report: Report) -> None:
    """Execute all runs of a series that are not done yet."""
    experiment = series.experiment
    if experiment is None:
        raise InvalidRequest(f"series {series.name} is open for reading only; open it with its experiment")
    series.check_plan(experiment)
    async with series.lock() as lock:
        series.reopen()
        async with connect_hosts(experiment.hosts, series.folder, own_behaviours(experiment), lock=lock) as hosts:
            database = system.Database(
                hosts.database,
                choice=experiment.system.database,
                reachable_from_elsewhere=not all(host.local for host in hosts.all),
            )
            machines = [await _machine(host) for host in hosts.all]
            while (position := series.next_position(experiment)) is not None:
                await _Run(series, experiment, position, hosts, database, machines, report).execute()
        shutil.rmtree(series.folder / "system", ignore_errors=True)
        series.record.state = "done" if all(run.state == "done" for run in series.record.runs) else "failed"
        series.record.ended_at = records.now()
        series.save()


async def _machine(host: Host) -> Machine:
    offset = await host.clock_offset()
    host.ahead_ns = offset.offset_ns
    return Machine(host.name, host.address, await host.describe(), offset)


class _Run:
    """One run while it is executed."""

    def __init__(
        self,
        series: Series,
        experiment: Experiment,
        position: int,
        hosts: Hosts,
        database: system.Database,
        machines: list[Machine],
        report: Report,
    ) -> None:
        planned_run = series.record.runs[position]
        [point] = [point for point in design.points(experiment) if point.label == planned_run.label]
        self._series = series
        self._planned_run = planned_run
        self._experiment = point.experiment
        self._hosts = hosts
        self._database = database
        self._folder = series.folder_for(position)
        self._samples = Samples()
        self._rates: dict[str, int] = {}
        """Requests in the last second, by load process."""
        self._report = report
        waiting_runs = sum(run.state == "waiting" for run in series.record.runs) - 1
        self._progress = Progress(
            self._folder.name,
            position + 1,
            len(series.record.runs),
            "prepare",
            seconds_left=self._experiment.run.seconds,
            later_seconds=waiting_runs * self._experiment.run.seconds,
        )
        self._record = RunRecord(
            id=f"{series.name}/{self._folder.name}",
            experiment=experiment.name,
            label=planned_run.label,
            levels=planned_run.levels,
            repetition=planned_run.repetition,
            state="running",
            seed=random.Random(f"{experiment.seed}:{planned_run.label}:{planned_run.repetition}").getrandbits(32),  # noqa: S311
            settings=settings(self._experiment),
            design=experiment.design.kind,
            stafette=stafette.__version__,
            revision=records.revision(),
            started_at=records.now(),
            machines=machines,
        )

    async def execute(self) -> None:
        """Execute the run, and write its record."""
        self._planned_run.folder = self._folder.name
        self._save_state("running")
        try:
            await self._run()
        except asyncio.CancelledError:
            self._record.why = "the run was interrupted"
            self._save_state("interrupted")
            raise
        except (StafetteError, OSError) as error:
            self._record.why = str(error)
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # the error came while the run was being interrupted
                self._save_state("interrupted")
                raise asyncio.CancelledError from error
            self._save_state("failed")
        else:
            self._save_state("done")

    def _save_state(self, state: records.State) -> None:
        self._record.state = self._planned_run.state = state
        if state != "running":
            self._record.ended_at = records.now()
        records.write(self._folder / RUN_FILE, self._record)
        self._series.save()

    # The method

    async def _run(self) -> None:
        self._report_phase("prepare")
        url = await self._database.empty(self._folder_on(self._hosts.database) / LOGS)
        try:
            async with await Store.open(url, connections=2) as store:
                preloaded = await system.preload(store, self._experiment)
                self._record.database = await laboratory.settle(url)
                async with self._brokers(url) as (brokers, brokers_url), self._workers(url, brokers_url) as workers:
                    await self._measure(store, brokers, workers)
                overview = await store.monitoring.overview()
                remaining = overview.ready + overview.leased + overview.delayed + overview.dead
                self._record.messages = Messages(preloaded, remaining)
        finally:
            await self._collect()
        self._report_phase("check")
        await asyncio.to_thread(self._conclude)

    @contextlib.asynccontextmanager
    async def _brokers(self, database: str) -> AsyncIterator[tuple[list[Process], str]]:
        async with system.brokers(
            self._hosts, self._experiment, database, run=self._record.id, folder=self._folder_on
        ) as (processes, url):
            self._record.processes |= {process.name: process.host.name for process in processes}
            yield processes, url

    @contextlib.asynccontextmanager
    async def _workers(self, database: str, url: str) -> AsyncIterator[list[Process]]:
        """The load processes, with all their clients connected."""
        per_host = self._experiment.system.load_processes
        hosts = [host for host in self._hosts.clients for _ in range(per_host)]
        workers: list[Process] = []
        try:
            for number, host in enumerate(hosts):
                name = f"load-{number + 1}"
                log = self._folder_on(host) / LOGS / f"{name}.log"
                worker = await host.start(name, host.command("stafette.lab.running.worker"), log=log)
                workers.append(worker)
                worker.write_line(msgspec.json.encode(self._job(host, name, number, len(hosts), database, url)))
                self._record.processes[name] = host.name
            for worker in workers:
                _expect(worker_protocol.Ready, worker, await worker.read_line(within=READY_SECONDS))
            yield workers
        finally:
            for worker in workers:
                worker.signal("TERM")
            for worker in workers:
                await worker.wait(within=system.STOP_SECONDS)

    def _job(self, host: Host, name: str, number: int, workers: int, database: str, url: str) -> worker_protocol.Job:
        run = self._experiment.run
        groups = {name: group.model_dump(mode="json") for name, group in self._experiment.clients.items()}
        return worker_protocol.Job(
            run=self._record.id,
            seed=self._record.seed,
            worker=number,
            workers=workers,
            node=name,
            traces=str(self._folder_on(host) / TRACES),
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
        """Start the load, and wait for its end."""
        run = self._experiment.run
        start = time.time_ns() + int(LEAD_SECONDS * SECOND)
        self._record.load = Window(start, start + int(run.seconds * SECOND))
        window_start = start + int(run.warm_up * SECOND)
        self._record.window = Window(window_start, window_start + int(run.duration * SECOND))
        for host in self._hosts.all:
            host.samples.clear()
        for worker in workers:
            worker.write_line(msgspec.json.encode(worker_protocol.Start(start + worker.host.ahead_ns)))
        async with self._samples.collect(store), _task_group() as tasks:
            watches = [tasks.create_task(broker.fail_at_exit()) for broker in brokers]
            for fault in self._experiment.faults:
                tasks.create_task(self._inject(fault, brokers, start))
            progress_by_worker: dict[str, LoadProgress] = {}
            ends = [tasks.create_task(self._follow(worker, progress_by_worker)) for worker in workers]
            self._record.workers = {worker.name: await end for worker, end in zip(workers, ends, strict=True)}
            for watch in watches:
                watch.cancel()

    async def _follow(self, worker: Process, progress_by_worker: dict[str, LoadProgress]) -> Done:
        """Read the events of a load process to their end."""
        while True:
            event = _read_event(worker, await worker.read_line(within=SILENCE_SECONDS))
            match event:
                case LoadProgress():
                    before = progress_by_worker.get(worker.name)
                    self._rates[worker.name] = event.requests - (before.requests if before else 0)
                    progress_by_worker[worker.name] = event
                    self._update_progress(progress_by_worker)
                case Done():
                    return event
                case _:
                    raise StafetteError(f"{worker.name} sent {type(event).__name__} during its load; see its log")

    async def _inject(self, fault: Fault, brokers: list[Process], start: int) -> None:
        """Pause a process for a while."""
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
            await host.collect(self._folder_on(host), self._folder)
        for machine, host in zip(self._record.machines, self._hosts.all, strict=True):
            machine.clock_after = await host.clock_offset()

    def _conclude(self) -> None:
        """Summarise, check, and compare with the thresholds."""
        record = self._record
        assert record.window is not None
        assert record.load is not None
        rows = trace_rows.read(self._folder / TRACES)
        record.summary = summarise(rows, record.window)
        record.per_second = per_second(rows, record.load)
        steps = sum(worker.steps for worker in record.workers.values())
        record.closed_loop = closed_loop(record.settings, steps / record.load.seconds)
        record.checks = check(rows, record.summary, self._run_context())
        record.verdict = verdict(record.checks)
        record.thresholds = [
            ThresholdResult(metric, str(threshold), value := record.summary.metric(metric), threshold.holds(value))
            for metric, threshold in self._experiment.thresholds.items()
        ]

    def _run_context(self) -> RunContext:
        groups = self._experiment.clients
        system_table = self._experiment.system
        assert self._record.messages is not None
        return RunContext(
            nodes=[*self._record.workers, *system.nodes(system_table)],
            preloaded=self._record.messages.preloaded,
            remaining=self._record.messages.left,
            workers=self._record.workers,
            rates={name: group.rate for name, group in groups.items() if group.rate and not group.ramp},
            closed_loop=self._record.closed_loop,
            brokers=system_table.brokers > 0,
            faults=bool(self._experiment.faults),
        )

    # Helpers

    def _folder_on(self, host: Host) -> PurePath:
        """This run's folder on a machine."""
        return self._folder if host.local else host.folder / self._folder.name

    def _update_progress(self, progress_by_worker: dict[str, LoadProgress]) -> None:
        """Combine the progress of all load processes."""
        assert self._record.load is not None
        run = self._experiment.run
        elapsed = (time.time_ns() - self._record.load.start_ns) / SECOND
        phase: Phase = "warm-up" if elapsed < run.warm_up else "measure"
        if elapsed >= run.warm_up + run.duration:
            phase = "cool-down"
        times = [progress.response_ms for progress in progress_by_worker.values() if progress.response_ms is not None]
        self._progress = replace(
            self._progress,
            seconds_left=max(0.0, run.seconds - elapsed),
            requests=sum(progress.requests for progress in progress_by_worker.values()),
            errors=sum(progress.errors for progress in progress_by_worker.values()),
            throughput=sum(self._rates.values()),
            response_ms=sum(times) / len(times) if times else None,
        )
        self._report_phase(phase)

    def _report_phase(self, phase: Phase) -> None:
        self._progress = replace(self._progress, phase=phase)
        self._report(self._progress)


@contextlib.asynccontextmanager
async def _task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A TaskGroup that raises the first error instead of a group of errors."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _read_event(worker: Process, line: str) -> worker_protocol.Event:
    try:
        event: worker_protocol.Event = msgspec.json.decode(line, type=worker_protocol.Event)
    except msgspec.MsgspecError as error:
        raise StafetteError(f"{worker.name} sent a line that is not an event: {error}; see its log") from error
    if isinstance(event, worker_protocol.Failed):
        raise StafetteError(f"{worker.name}: {event.detail}")
    return event


def _expect(kind: type[worker_protocol.Event], worker: Process, line: str) -> None:
    event = _read_event(worker, line)
    if not isinstance(event, kind):
        raise StafetteError(f"{worker.name} sent {type(event).__name__} instead of {kind.__name__}; see its log")
