"""Maintenance: what must happen now and then. One service per file, all of one shape: a period, and one round of work.

Several brokers may do the same round at once; the functions behind them skip what another is just working on.
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
"""How much one round moves, so that it never holds locks for long; there is another round at once when it was full."""


class Service(Protocol):
    """One duty."""

    seconds: float

    async def round(self, runtime: Runtime) -> bool:
        """Do some of it; True when there is more to do right now."""


async def serve(service: Service, runtime: Runtime) -> None:
    """Do a duty for as long as the broker lives; a failed round is logged and repeated in its time."""
    name, rounds = type(service).__name__, runtime.core.metrics.rounds
    while True:
        try:
            more = await service.round(runtime)
            rounds[name, "ok"] += 1
        except Exception as error:  # a duty goes on whatever happens; what is not a known failure is shown in full
            log.warning("%s: %s", name, error, exc_info=not isinstance(error, StafetteError))
            rounds[name, "failed"] += 1
            more = False
        if not more:
            await asyncio.sleep(service.seconds)
