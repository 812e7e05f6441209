"""Notifications between brokers: a send here wakes a read that waits there.

Each broker announces in the database for which queues it has reads that wait, and hears from PostgreSQL when others do.
After a send, outside its transaction, it notifies those who wait for that queue; notifications that gather while one is
on its way go together. All this may be lost with a connection: behind it every read that waits tries again now and
then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from stafette.database.store import Store
from stafette.errors import StafetteError

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""How often reads that wait try again without a notification, and how long an interest outlives its read."""

RETRY_SECONDS = 1.0


class Notifications:
    """What one broker hears from and tells the others."""

    def __init__(
        self, store: Store, broker_id: int, runtime: Runtime, *, extra_channels: Mapping[str, Callable[[str], None]]
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._runtime = runtime
        self._waiting = runtime.core.waiting
        self._interests = runtime.core.interests
        self._extra_channels = extra_channels
        """Further channels on the same connection, each with who hears what comes there."""
        self._notify_due = asyncio.Event()
        self._learn_due = asyncio.Event()
        self._announce_due = asyncio.Event()

    def wake(self) -> None:
        """There are interests to announce, or brokers to notify."""
        if self._interests.has_news:
            self._interests.has_news = False
            self._announce_due.set()
        if self._interests.notifications:
            self._notify_due.set()

    async def serve(self) -> None:
        """Listen, announce and notify until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for duty in (self._listen, self._announce, self._learn, self._notify, self._poll):
                tasks.create_task(self._repeat(duty))

    async def _repeat(self, duty: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await duty()
            except Exception as error:  # notifications go on whatever happens, like maintenance
                log.warning("notifications: %s", error, exc_info=not isinstance(error, StafetteError))
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        self._interests.announced = set()  # whatever broke the last connection may have emptied the table too
        self._announce_due.set()
        self._learn_due.set()
        await self._store.pool.listen(
            {
                "stafette_parked": lambda _broker: self._learn_due.set(),
                f"stafette_bell_{self._broker_id}": lambda queue: self._runtime.wake_reads([queue]),
                **self._extra_channels,
            }
        )

    async def _announce(self) -> None:
        """Say for which queues reads wait; since a message may have come before that was known, they try again."""
        await self._announce_due.wait()
        self._announce_due.clear()
        interests = self._interests
        queues = self._waiting.queues | interests.announced
        if queues == interests.announced:  # said already, while more reads began to wait
            return
        await self._store.brokers.announce_interests(self._broker_id, sorted(queues))
        new, interests.announced = queues - interests.announced, queues
        self._runtime.wake_reads(sorted(new))

    async def _learn(self) -> None:
        """Ask for which queues the others wait."""
        await self._learn_due.wait()
        self._learn_due.clear()
        self._interests.learn(await self._store.brokers.interests_elsewhere(self._broker_id))
        self.wake()

    async def _notify(self) -> None:
        await self._notify_due.wait()
        self._notify_due.clear()
        if notifications := self._interests.take_notifications():
            await self._store.brokers.notify(notifications)

    async def _poll(self) -> None:
        """The slow way behind the notifications; also takes back interests that nobody has any more."""
        await asyncio.sleep(POLL_SECONDS)
        if self._interests.announced - self._waiting.queues:
            self._interests.announced &= self._waiting.queues
            await self._store.brokers.announce_interests(self._broker_id, sorted(self._interests.announced))
        self._learn_due.set()
        self._runtime.wake_reads()
