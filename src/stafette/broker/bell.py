"""Bells between brokers: a send here wakes a read that is parked there.

Each broker says in the database for which queues it has reads parked, and hears from PostgreSQL when others do. After a
send, outside its transaction, it rings those who wait for that queue; rings that gather while one is on its way go
together. When a broker learns of a new wish it rings at once, for it may have sent just before. All this may be lost
with a connection: behind it every parked read tries again now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from stafette.broker.parking import ANYWHERE, Parking
from stafette.database.store import Store
from stafette.errors import StafetteError

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""How often parked reads try again without a bell, and how long a wish outlives the read that made it."""


class Bell:
    """What one broker hears from and tells the others."""

    def __init__(
        self, store: Store, broker: int, parking: Parking, *, besides: Mapping[str, Callable[[str], None]]
    ) -> None:
        self._store = store
        self._broker = broker
        self._parking = parking
        self._besides = besides
        """Further channels that are listened to on the same connection, with who hears what comes there."""
        self._wished: set[str] = set()
        self._elsewhere: dict[str, set[int]] = {}
        self._to_ring: set[tuple[int, str]] = set()
        self._ring_due = asyncio.Event()
        self._look_due = asyncio.Event()
        self._wish_due = asyncio.Event()

    def sent(self, queue: str) -> None:
        """Something new is in a queue: ring whoever waits for it elsewhere."""
        if self._elsewhere:
            for broker in self._elsewhere.get(queue, set()) | self._elsewhere.get(ANYWHERE, set()):
                self._to_ring.add((broker, queue))
                self._ring_due.set()

    def parked(self, queue: str | None) -> None:
        """A read is parked for a queue: let the others know, unless they do."""
        if (queue or ANYWHERE) not in self._wished:
            self._wish_due.set()

    async def serve(self) -> None:
        """Listen, wish and ring until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for duty in (self._listen, self._wish, self._look, self._ring, self._poll):
                tasks.create_task(self._again_and_again(duty))

    async def _again_and_again(self, duty: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await duty()
            except Exception as error:  # the bell goes on whatever happens, like upkeep
                log.warning("bell: %s", error, exc_info=not isinstance(error, StafetteError))
                await asyncio.sleep(1.0)

    async def _listen(self) -> None:
        self._wished = set()  # whatever broke the last connection may have emptied the table of wishes too
        self._wish_due.set()
        self._look_due.set()
        await self._store.listen(
            {"stafette_parked": self._hear_wish, f"stafette_bell_{self._broker}": self._hear_ring, **self._besides}
        )

    def _hear_wish(self, _broker: str) -> None:
        self._look_due.set()

    def _hear_ring(self, queue: str) -> None:
        self._parking.wake_all([queue])

    async def _wish(self) -> None:
        """Say for which queues reads are parked; and since a message may have come before that was known, try again."""
        await self._wish_due.wait()
        self._wish_due.clear()
        wished = self._parking.queues | self._wished
        if wished == self._wished:  # said already, while more reads were parked
            return
        await self._store.park(self._broker, sorted(wished))
        new, self._wished = wished - self._wished, wished
        self._parking.wake_all(new)

    async def _look(self) -> None:
        await self._look_due.wait()
        self._look_due.clear()
        before, self._elsewhere = self._elsewhere, await self._store.parked_elsewhere(self._broker)
        for queue, brokers in self._elsewhere.items():
            for broker in brokers - before.get(queue, set()):
                self._to_ring.add((broker, queue))
                self._ring_due.set()

    async def _ring(self) -> None:
        await self._ring_due.wait()
        self._ring_due.clear()
        ringing, self._to_ring = self._to_ring, set()
        if ringing:
            await self._store.ring(sorted(ringing))

    async def _poll(self) -> None:
        """The slow way behind the bell; also forgets wishes that nobody has any more."""
        await asyncio.sleep(POLL_SECONDS)
        if self._wished - self._parking.queues:
            self._wished &= self._parking.queues
            await self._store.park(self._broker, sorted(self._wished))
        self._look_due.set()
        self._parking.wake_all()
