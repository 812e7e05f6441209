"""What every route works with: database, broker connection, operators, and the laboratory's job queue."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from stafette.database.console import Console
from stafette.database.store import Store
from stafette.lab.jobs.job_queue import JobQueue
from stafette.web.hosts import Hosts, Network
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


@dataclass(frozen=True)
class Site:
    """The parts of a running application."""

    settings: WebSettings
    store: Store
    console: Console
    operators: Operators
    link: BrokerLink
    job_queue: JobQueue


@contextlib.asynccontextmanager
async def open_site(settings: WebSettings) -> AsyncIterator[Site]:
    """Connect all parts; close them at the end."""
    store = await Store.open(settings.database, connections=CONNECTIONS, unsafe_durability=settings.unsafe_durability)
    async with store:
        console = Console(store.pool)
        link = BrokerLink(settings.broker, console, settings.data)
        try:
            job_queue = JobQueue(settings.runs, settings.database)
            yield Site(settings, store, console, Operators(console), link, job_queue)
        finally:
            await link.close()
