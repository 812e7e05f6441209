"""What every route works with: the database, the way to a broker, the operators, the laboratory's folders."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from stafette.database.console import Console
from stafette.database.store import Store
from stafette.web.link import BrokerLink
from stafette.web.operators import Operators
from stafette.web.testmaster.queue import Testmaster

audit_log = logging.getLogger("stafette.audit")

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
    testmaster: Testmaster

    async def changed(self, role: str, address: str, action: str, subject: str, detail: str = "") -> None:
        """Write down who changed what."""
        audit_log.info("%s from %s: %s %s %s", role, address, action, subject, detail)
        await self.console.audit(role, address, action, subject, detail)


@contextlib.asynccontextmanager
async def opened(settings: WebSettings) -> AsyncIterator[Site]:
    """Everything connected; let go of at the end."""
    store = await Store.open(settings.database, connections=CONNECTIONS, unsafe_durability=settings.unsafe_durability)
    async with store:
        console = Console(store)
        link = BrokerLink(settings.broker, console, settings.data)
        try:
            testmaster = Testmaster(settings.runs, settings.database)
            yield Site(settings, store, console, Operators(console), link, testmaster)
        finally:
            await link.close()
