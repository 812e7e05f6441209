"""The system under test: the database and the brokers, on their machines."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import PurePath

from stafette.database import laboratory
from stafette.database.messages import SendRequest
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.lab.experiment.experiment_file import Experiment, System
from stafette.lab.hosts.agent import RunAtExit, SignalProcess, WatchProcess
from stafette.lab.hosts.host import Host, Process
from stafette.lab.hosts.machines import Hosts
from stafette.model import Draft
from stafette.runs.layout import LOGS, TRACES

START_SECONDS = 120.0
STOP_SECONDS = 60.0
PRELOAD_BATCH = 1000
PRELOADER = "preload"
"""The name of the client that sends the messages before the load."""


class Database:
    """The database of a series: embedded on its machine, or an external one."""

    def __init__(self, host: Host, *, choice: str, reachable_from_elsewhere: bool) -> None:
        self._host = host
        self._external_url = choice if "://" in choice else None
        self._fresh = choice == "fresh"
        self._tcp = reachable_from_elsewhere
        self._data = host.folder / "database"
        self._url: str | None = None

    async def empty(self, logs: PurePath) -> str:
        """Empty it, or start it; returns its URL. It has our schema and nothing else."""
        if self._external_url is None and self._fresh and self._url:
            await self._remove(logs)
        if self._external_url is None and self._url is None:
            await self._start(logs)
        url = self._external_url or self._url
        assert url is not None
        await laboratory.empty(url)
        return url

    def signal(self, name: str) -> None:
        """Send it a signal, such as STOP."""
        self._host.send(SignalProcess("database", f"SIG{name}"))

    async def _start(self, logs: PurePath) -> None:
        self._host.send(RunAtExit(self._command("stop")))
        options = ["--tcp", "--host", self._host.address] if self._tcp else []
        output = await self._run("start", logs, *options)
        self._url = output[-1]
        pid_file = str(self._data / "postgres" / "postmaster.pid")
        [pid] = await self._host.run("database id", ["head", "-n1", pid_file], log=logs / "database.log", within=60)
        self._host.send(WatchProcess("database", int(pid)))

    async def _remove(self, logs: PurePath) -> None:
        await self._run("stop", logs)
        await self._host.run("database removed", ["rm", "-rf", str(self._data)], log=logs / "database.log", within=60)
        self._url = None

    async def _run(self, action: str, logs: PurePath, *arguments: str) -> list[str]:
        return await self._host.run(
            f"database {action}", self._command(action, *arguments), log=logs / "database.log", within=START_SECONDS
        )

    def _command(self, action: str, *arguments: str) -> list[str]:
        return self._host.command("stafette", "db", action, "--data", str(self._data), *arguments)


async def preload(store: Store, experiment: Experiment) -> int:
    """Create the queues and send the messages that are there before the load; returns the number of messages."""
    table = experiment.preload
    client_id = (await store.clients.register(PRELOADER)).id
    names = table.names
    for name in names:
        await store.queues.create(client_id, name)
    rng = random.Random(f"{experiment.seed}:{PRELOADER}")  # noqa: S311
    for first in range(0, table.messages, PRELOAD_BATCH):
        numbers = range(first, min(first + PRELOAD_BATCH, table.messages))
        sends = [
            SendRequest(client_id, Draft((names[number % table.queues],), rng.randbytes(round(table.size.draw(rng)))))
            for number in numbers
        ]
        for answer in await store.messages.send(sends):
            if isinstance(answer, StafetteError):
                raise answer
    return table.messages


@contextlib.asynccontextmanager
async def brokers(
    hosts: Hosts, experiment: Experiment, database: str, *, run: str, folder: Callable[[Host], PurePath]
) -> AsyncIterator[tuple[list[Process], str]]:
    """The brokers of a run, and the URL of them all; they are drained at the end."""
    processes: list[Process] = []
    try:
        for number in range(1, experiment.system.brokers + 1):
            host = hosts.brokers[(number - 1) % len(hosts.brokers)]
            name = f"broker-{number}"
            options = _options(experiment.system, host, name, run, folder(host))
            command = host.command("stafette", "broker", *options)
            log = folder(host) / LOGS / f"{name}.log"
            environment = {"STAFETTE_DATABASE": database}
            processes.append(await host.start(name, command, log=log, environment=environment))
        urls = [await process.read_line(within=START_SECONDS) for process in processes]
        yield processes, "stafette://" + ",".join(url.strip().partition("://")[2] for url in urls)
    finally:
        for process in processes:
            process.signal("CONT")  # a fault may have paused it
            process.signal("TERM")
        for process in processes:
            await process.wait(within=STOP_SECONDS)


def nodes(system: System) -> list[str]:
    """The names of the broker processes in the trace."""
    names = [f"broker-{number}" for number in range(1, system.brokers + 1)]
    if system.workers == 1:
        return names
    return [f"{name}/{worker}" for name in names for worker in range(1, system.workers + 1)]


def _options(system: System, host: Host, name: str, run: str, folder: PurePath) -> list[str]:
    options = {
        "--name": name,
        "--data": host.folder / "brokers",
        "--host": host.address,
        "--port": 0,
        "--workers": system.workers,
        "--connections": system.connections,
        "--batch": system.batch,
        "--max-clients": system.max_clients,
        "--max-in-flight": system.max_in_flight,
        "--trace": folder / TRACES,
        "--run": run,
        "--clock-ahead": host.ahead_ns,
    }
    arguments = [str(part) for option in options.items() for part in option]
    return arguments if host.local else [*arguments, "--insecure"]
