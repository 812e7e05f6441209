"""Notifications between brokers: a send to one wakes a read that waits at another.

Each broker announces in the database the queues for which it has waiting reads, and PostgreSQL notifies it when others
do. After a send, outside its transaction, it notifies the brokers with reads for that queue; notifications that gather
during a call go together in the next. An application that sends in SQL notifies in its transaction, if anybody waits.

All this may be lost with a connection. So one query finds out every POLL_SECONDS for which reads something is ready.

Any role of the database can send such notifications, so none is believed: each makes the broker look into the database,
or names the token of a session, which nobody can guess.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from stafette.broker import operator_commands
from stafette.database.store import Store
from stafette.errors import StafetteError

if TYPE_CHECKING:
    from stafette.broker.runtime import Runtime

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""How often brokers look for messages without a notification, and how long an interest outlives its read."""

POLLED_ASKS = 10_000
"""Reads in one such query, those that are after the same counted once."""

RETRY_SECONDS = 1.0

LOOK_PAUSE = 0.02
"""After a look into the database that a notification caused: a flood of them must not become a flood of queries."""

MAX_DIGITS = 20
"""Of a number in a notification, which has 64 bits."""


class Notifications:
    """The notifications and interests that one broker exchanges with the others."""

    def __init__(self, store: Store, broker_id: int, runtime: Runtime) -> None:
        self._store = store
        self._broker_id = broker_id
        self._runtime = runtime
        self._waiting = runtime.core.waiting
        self._interests = runtime.core.interests
        self._notified_queues: set[str] = set()
        """Those of this turn of the loop, whose reads are woken at its end."""
        self._notify_due = asyncio.Event()
        self._learn_due = asyncio.Event()
        self._commands_due = asyncio.Event()
        self._moves_due = asyncio.Event()
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
            duties = (self._listen, self._announce, self._learn, self._notify, self._poll)
            for duty in (*duties, self._execute_commands, self._evict):
                tasks.create_task(self._repeat(duty))

    async def _repeat(self, duty: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await duty()
            except Exception as error:  # notifications must continue, like maintenance
                log.warning("notifications: %s", error, exc_info=not isinstance(error, StafetteError))
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        await self._store.pool.listen(
            {
                "stafette_parked": lambda _: self._learn_due.set(),
                f"stafette_bell_{self._broker_id}": self._on_message,
                f"stafette_moved_{self._broker_id}": self._on_moved,
                f"stafette_commands_{self._broker_id}": lambda _: self._commands_due.set(),
            },
            on_listening=self._begin,
        )

    def _begin(self) -> None:
        """Announce everything (again), which wakes the reads; the table is empty after a crash or a failover.

        What was said before is lost: commands and sessions are looked up.
        """
        self._interests.announced = set()
        self._announce_due.set()
        self._learn_due.set()
        self._commands_due.set()
        self._moves_due.set()

    def _on_message(self, queue: str) -> None:
        """Another broker, or an application, has sent to a queue."""
        if not self._notified_queues:
            asyncio.get_running_loop().call_soon(self._wake_notified)
        self._notified_queues.add(queue)

    def _wake_notified(self) -> None:
        queues, self._notified_queues = self._notified_queues, set()
        self._runtime.wake_reads(sorted(queues))

    def _on_moved(self, payload: str) -> None:
        """Another broker continues a session: client and token here. Without the right token nothing happens."""
        numbers = payload.split(" ", 2)
        if len(numbers) == 2 and all(number.isdecimal() and len(number) <= MAX_DIGITS for number in numbers):
            self._runtime.end_moved(int(numbers[0]), int(numbers[1]))

    async def _evict(self) -> None:
        """Hang up on sessions that have moved while nobody listened."""
        await self._moves_due.wait()
        self._moves_due.clear()
        await self._runtime.evict_lost_sessions()

    async def _execute_commands(self) -> None:
        """Read the commands of operators, and execute them."""
        await self._commands_due.wait()
        self._commands_due.clear()
        for command in await self._store.brokers.take_commands(self._broker_id):
            operator_commands.execute(command, self._runtime)
        await asyncio.sleep(LOOK_PAUSE)

    async def _announce(self) -> None:
        """Announce the queues for which reads wait; then those reads try again: a message may have come before."""
        await self._announce_due.wait()
        self._announce_due.clear()
        interests = self._interests
        queues = self._waiting.queues | interests.announced
        if queues == interests.announced:  # already announced
            return
        await self._store.brokers.announce_interests(self._broker_id, sorted(queues))
        new, interests.announced = queues - interests.announced, queues
        self._runtime.wake_reads(sorted(new))

    async def _learn(self) -> None:
        """Read the interests of the other brokers."""
        await self._learn_due.wait()
        self._learn_due.clear()
        self._interests.learn(await self._store.brokers.interests_elsewhere(self._broker_id))
        self.wake()
        await asyncio.sleep(LOOK_PAUSE)

    async def _notify(self) -> None:
        await self._notify_due.wait()
        self._notify_due.clear()
        if notifications := self._interests.take_notifications():
            await self._store.brokers.notify(notifications)

    async def _poll(self) -> None:
        """Wake reads now and then, and look for commands, in case a notification was lost.

        Interests without reads are withdrawn, too.
        """
        await asyncio.sleep(POLL_SECONDS)
        self._commands_due.set()
        awaited = self._waiting.queues | self._waiting.tried_queues
        if self._interests.announced - awaited:
            self._interests.announced &= awaited
            await self._store.brokers.announce_interests(self._broker_id, sorted(self._interests.announced))
        self._learn_due.set()
        asks = self._waiting.asks()
        keys = list(asks)
        for start in range(0, len(keys), POLLED_ASKS):
            for ask in await self._store.messages.ready(keys[start : start + POLLED_ASKS]):
                self._runtime.wake(asks[ask])
