"""What every route works with: the database, the way to a broker, the operators, the laboratory's folders."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from stafette.database.console import Console
from stafette.database.store import Store
from stafette.lab.jobs.job_queue import JobQueue
from stafette.web.link import BrokerLink
from stafette.web.operators import Operators

CONNECTIONS = 4


@dataclass(frozen=True)
class WebSettings:
    """How to run the web application."""

    database: str
    data: Path
    runs: Path
    """Where the laboratory keeps its runs."""
    experiments: Path
    """Where experiments made on the pages are kept."""
    broker: str | None = None
    """Through which messages are sent and received; without, through any that is alive."""
    secure: bool = False
    """Whether browsers reach it by https."""
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
async def opened(settings: WebSettings) -> AsyncIterator[Site]:
    """Everything connected; let go of at the end."""
    store = await Store.open(settings.database, connections=CONNECTIONS, unsafe_durability=settings.unsafe_durability)
    async with store:
        console = Console(store.pool)
        link = BrokerLink(settings.broker, console, settings.data)
        try:
            job_queue = JobQueue(settings.runs, settings.database)
            yield Site(settings, store, console, Operators(console), link, job_queue)
        finally:
            await link.close()
