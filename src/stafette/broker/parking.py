"""Reads that wait for a message: parked here, costing nothing, until a send for their queue or their time is up.

A woken read tries again in the database like any other; when somebody else was faster it is parked anew. Per message
that anyone may have, one read is woken that is sure to take it, and those before it that may; all reads of a client are
woken for a message addressed to it. A read that is just trying when its message comes tries once more: the database may
have looked too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from stafette.broker.engine import Pending
from stafette.broker.session import Session
from stafette.protocol.messages import Peek, Selection

ANYWHERE = ""
"""The key of reads that name no queue."""


class Parking:
    """All parked reads of a broker, by queue, first come first served."""

    def __init__(self, *, retry: Callable[[Pending], None], give_up: Callable[[Pending], None]) -> None:
        self._retry = retry
        self._give_up = give_up
        self._by_queue: dict[str, dict[Pending, asyncio.TimerHandle]] = {}
        self._by_session: dict[Session, dict[Pending, str | None]] = {}
        """Every read that waits, with the key under which it is parked; None while it is woken and tries again."""
        self._trying: dict[str, dict[Pending, bool]] = {}
        """Every read that may wait and is just trying, by queue: whether something for it has come meanwhile."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def queues(self) -> set[str]:
        """The queues for which somebody waits."""
        return set(self._by_queue)

    def park(self, pending: Pending, queue: str | None) -> None:
        """Let a read wait for a message in a queue until its time is up."""
        key = queue or ANYWHERE
        alarm = asyncio.get_running_loop().call_at(pending.until, self._time_is_up, pending, key)
        self._by_queue.setdefault(key, {})[pending] = alarm
        self._by_session.setdefault(pending.session, {})[pending] = key
        self._count += 1

    def trying(self, pending: Pending) -> None:
        """A read that may wait goes to the database."""
        self._trying.setdefault(_key(pending), {})[pending] = False

    def tried(self, pending: Pending) -> bool:
        """It is back; True when something for it has come meanwhile, which it may have been too early to see."""
        key = _key(pending)
        reads = self._trying.get(key, {})
        missed = reads.pop(pending, False)
        if not reads:
            self._trying.pop(key, None)
        return missed

    def try_again(self, pending: Pending) -> None:
        """Let a read that waits, but is not parked, go to the database again."""
        self._by_session.setdefault(pending.session, {})[pending] = None
        self.trying(pending)
        self._retry(pending)

    def wake(self, queue: str, *, sender: str, receiver: str | None, context: int | None) -> None:
        """Somebody has sent a message to a queue: for one receiver, or for anyone."""
        for key in (queue, ANYWHERE) if self._by_queue or self._trying else ():
            trying = self._trying.get(key, {})
            for pending in trying:
                trying[pending] = trying[pending] or _concerns(pending, sender, receiver, context)
            woken = []
            for pending in self._by_queue.get(key, ()):
                if _concerns(pending, sender, receiver, context):
                    woken.append(pending)
                    if receiver is None and _takes_anything(pending, sender):
                        break
            self._wake(key, woken)

    def wake_all(self, queues: Iterable[str] | None = None) -> None:
        """Let every read of these queues, or of all, try again."""
        for key in {*self._by_queue, *self._trying} if queues is None else {*queues, ANYWHERE}:
            trying = self._trying.get(key, {})
            for pending in trying:
                trying[pending] = True
            self._wake(key, list(self._by_queue.get(key, ())))

    def cancel(self, session: Session, request_id: int) -> None:
        """End the wait of a read; one that is just trying again will not be parked anew."""
        for pending, key in self._by_session.get(session, {}).items():
            if pending.request.id == request_id:
                pending.until = asyncio.get_running_loop().time()
                if key is not None:
                    self._time_is_up(pending, key)
                return

    def settled(self, pending: Pending) -> None:
        """A read that waited has its answer."""
        reads = self._by_session.get(pending.session)
        if reads is not None:
            reads.pop(pending, None)
            if not reads:
                del self._by_session[pending.session]

    def forget(self, session: Session) -> None:
        """Drop the reads of a client that has left."""
        for pending, key in self._by_session.pop(session, {}).items():
            if key is not None:
                self._remove(pending, key)

    def send_away(self, session: Session) -> None:
        """End the waits of a client that is to leave."""
        for pending, key in list(self._by_session.get(session, {}).items()):
            pending.until = asyncio.get_running_loop().time()
            if key is not None:
                self._time_is_up(pending, key)

    def close(self) -> None:
        """Send every read away with what there is: nothing."""
        for key, reads in list(self._by_queue.items()):
            for pending in list(reads):
                self._time_is_up(pending, key)

    def _wake(self, key: str, woken: list[Pending]) -> None:
        for pending in woken:
            self._remove(pending, key)
            self.try_again(pending)

    def _time_is_up(self, pending: Pending, key: str) -> None:
        self._remove(pending, key)
        self.settled(pending)
        self._give_up(pending)

    def _remove(self, pending: Pending, key: str) -> None:
        reads = self._by_queue[key]
        reads.pop(pending).cancel()
        self._count -= 1
        if not reads:
            del self._by_queue[key]


def _selection(pending: Pending) -> Selection:
    selection: Selection = pending.request.selection  # type: ignore[union-attr]  # only reads are parked
    return selection


def _key(pending: Pending) -> str:
    return _selection(pending).queue or ANYWHERE


def _concerns(pending: Pending, sender: str, receiver: str | None, context: int | None) -> bool:
    """Whether a read may be given a message."""
    wanted = _selection(pending)
    return (
        receiver in (None, pending.session.name)
        and wanted.sender in (None, sender)
        and wanted.context in (None, context)
    )


def _takes_anything(pending: Pending, sender: str) -> bool:
    """Whether a read takes whatever anyone may have: not if it looks only, or is the sender's, who may be excluded."""
    wanted = _selection(pending)
    return (
        wanted.sender is None
        and wanted.context is None
        and not isinstance(pending.request, Peek)
        and pending.session.name != sender
    )
