"""What every route works with: database, broker connection, operators, and the laboratory's job queue."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from stafette.database.console import Console
from stafette.database.store import Store
from stafette.errors import InvalidRequest
from stafette.lab.experiment.reach import NOWHERE, Reach, server_of
from stafette.lab.jobs.job_queue import JobQueue
from stafette.web.hosts import Hosts, Network
from stafette.web.lab.text_checks import TextChecks
from stafette.web.link import BrokerLink
from stafette.web.operators import Operators

CONNECTIONS = 4


@dataclass(frozen=True)
class WebSettings:
    """How to run the web application."""

    database: str
    data: Path
    runs: Path
    """The folder of the laboratory's series."""
    experiments: Path
    """The folder of experiments that are saved on the pages."""
    broker: str | None = None
    """URL of the broker for sending and receiving; None: any broker that is alive."""
    hosts: Hosts = field(default_factory=Hosts)
    """The names and addresses under which browsers and scripts may address the console."""
    trusted_proxies: tuple[Network, ...] = ()
    """Those who are believed about where a request comes from."""
    unsafe_durability: bool = False
    lab: bool = True
    """Whether the laboratory has pages here."""
    reach: Reach = NOWHERE
    """What experiments from the pages may reach, besides databases of the console's own server."""


@dataclass(frozen=True)
class Site:
    """The parts of a running application."""

    settings: WebSettings
    store: Store
    console: Console
    operators: Operators
    link: BrokerLink
    job_queue: JobQueue
    texts: TextChecks


@contextlib.asynccontextmanager
async def open_site(settings: WebSettings) -> AsyncIterator[Site]:
    """Connect all parts; close them at the end."""
    if settings.lab:
        _check_folders(settings)
    store = await Store.open(settings.database, connections=CONNECTIONS, unsafe_durability=settings.unsafe_durability)
    async with store:
        console = Console(store.pool)
        link = BrokerLink(settings.broker, console, settings.data)
        reach = Reach(settings.reach.hosts, (*settings.reach.databases, server_of(settings.database)))
        texts = TextChecks(settings.experiments, reach)
        try:
            job_queue = JobQueue(settings.runs, settings.database, reach)
            yield Site(settings, store, console, Operators(console), link, job_queue, texts)
        finally:
            await texts.close()
            await link.close()


def _check_folders(settings: WebSettings) -> None:
    """Refuse folders of which one is in the other: an imported series would lie among the operator's files."""
    runs, experiments = settings.runs.resolve(), settings.experiments.resolve()
    if runs.is_relative_to(experiments) or experiments.is_relative_to(runs):
        raise InvalidRequest(
            f"the folders of runs ({runs}) and of experiments ({experiments}) lie in one another, so an imported series"
            " could bring code that experiments run; set STAFETTE_RUNS or STAFETTE_EXPERIMENTS to another folder"
        )
