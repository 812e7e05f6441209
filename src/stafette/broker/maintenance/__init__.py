"""Maintenance: periodic work. One service per file, all of one shape: a period, and one round of work.

Several brokers may do the same round at once; the SQL functions skip rows that another broker has locked.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from stafette.errors import StafetteError

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)

ROWS_AT_A_TIME = 1_000
"""Rows that one round moves at most, so that it holds locks briefly; after a full round the next follows at once."""


class Service(Protocol):
    """One kind of periodic work."""

    seconds: float

    async def round(self, runtime: Runtime) -> bool:
        """Do some work; True if there is more to do now."""


async def serve(service: Service, runtime: Runtime) -> None:
    """Run a service until cancelled; a failed round is logged and repeated after the service's period."""
    name, rounds = type(service).__name__, runtime.core.metrics.rounds
    while True:
        try:
            more = await service.round(runtime)
            rounds[name, "ok"] += 1
        except Exception as error:  # the service must continue; an unexpected error is logged with its stack
            log.warning("%s: %s", name, error, exc_info=not isinstance(error, StafetteError))
            rounds[name, "failed"] += 1
            more = False
        if not more:
            await asyncio.sleep(service.seconds)
