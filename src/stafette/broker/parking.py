"""Reads that wait for a message: parked here, costing nothing, until a send for their queue or their time is up.

A woken read tries again in the database like any other; when somebody else was faster it is parked anew. One read is
woken per message that anyone may have; all reads of a client are woken for a message addressed to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from stafette.broker.engine import Pending

ANYWHERE = ""
"""The key of reads that name no queue."""


class Parking:
    """All parked reads of a broker, by queue, first come first served."""

    def __init__(self, *, retry: Callable[[Pending], None], give_up: Callable[[Pending], None]) -> None:
        self._retry = retry
        self._give_up = give_up
        self._by_queue: dict[str, dict[Pending, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return sum(len(reads) for reads in self._by_queue.values())

    @property
    def queues(self) -> set[str]:
        """The queues for which somebody waits."""
        return set(self._by_queue)

    def park(self, pending: Pending, queue: str | None) -> None:
        """Let a read wait for a message in a queue until its time is up."""
        key = queue or ANYWHERE
        alarm = asyncio.get_running_loop().call_at(pending.until, self._time_is_up, pending, key)
        self._by_queue.setdefault(key, {})[pending] = alarm

    def wake(self, queue: str, *, messages: int = 1, receiver: str | None = None) -> None:
        """Somebody has sent messages to a queue: for one receiver, or for anyone."""
        for key in (queue, ANYWHERE):
            reads = self._by_queue.get(key)
            if not reads:
                continue
            if receiver is not None:
                woken = [pending for pending in reads if pending.session.name == receiver]
            else:
                woken = list(reads) if key is ANYWHERE else list(reads)[:messages]
            self._wake(key, woken)

    def wake_all(self, queues: Iterable[str] | None = None) -> None:
        """Let every read of these queues, or of all, try again."""
        for key in list(self._by_queue) if queues is None else {*queues, ANYWHERE}:
            self._wake(key, list(self._by_queue.get(key, ())))

    def forget(self, gone: Callable[[Pending], bool]) -> None:
        """Drop the reads of clients that have left."""
        for key, reads in list(self._by_queue.items()):
            for pending in [pending for pending in reads if gone(pending)]:
                self._remove(pending, key)

    def close(self) -> None:
        """Send every read away with what there is: nothing."""
        for key, reads in list(self._by_queue.items()):
            for pending in list(reads):
                self._time_is_up(pending, key)

    def _wake(self, key: str, woken: list[Pending]) -> None:
        for pending in woken:
            self._remove(pending, key)
            self._retry(pending)

    def _time_is_up(self, pending: Pending, key: str) -> None:
        self._remove(pending, key)
        self._give_up(pending)

    def _remove(self, pending: Pending, key: str) -> None:
        reads = self._by_queue[key]
        reads.pop(pending).cancel()
        if not reads:
            del self._by_queue[key]
