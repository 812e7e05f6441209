"""Reads that wait for a message: parked here, at no cost, until a send to their queue or until their time is up.

A woken read tries again in the database like any other; if another was faster, it is parked again. A message for
anyone wakes one read that is sure to take it, and those before it that may. A message for one receiver wakes all reads
of that client. A read that is in the database when its message comes tries once more: it may have been too early.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

from stafette.broker.core.session import Session, Ticket
from stafette.model import Ask, Selection
from stafette.protocol.messages import Peek

ANY_QUEUE = ""
"""The key of reads that name no queue."""

MAX_STALE_DEADLINES = 64
"""Deadlines of ended reads are removed when there are more of them than this plus the number of waiting reads."""


class WaitingReads:
    """All reads of a broker that wait, by queue, first come first served."""

    def __init__(self) -> None:
        self._parked: dict[str, dict[Ticket, None]] = {}
        self._by_session: dict[Session, dict[Ticket, str | None]] = {}
        """Every read that waits, with the key under which it is parked; None while it is woken and tries again."""
        self._trying: dict[str, dict[Ticket, bool]] = {}
        """Every read that may wait and is in the database, by queue: whether a message for it has come meanwhile."""
        self._deadlines: list[tuple[float, int, Ticket]] = []
        """A heap. A read is in it once, from when it first waits; ended reads are skipped."""
        self._numbers = itertools.count()
        self._waiting = 0
        self._parked_count = 0

    def __len__(self) -> int:
        return self._parked_count

    @property
    def queues(self) -> set[str]:
        """The queues for which reads wait."""
        return set(self._parked)

    @property
    def tried_queues(self) -> set[str]:
        """The queues for which reads are in the database that wait, or may yet."""
        return set(self._trying)

    # To the database and back

    def begin_try(self, ticket: Ticket) -> None:
        """A read that may wait goes to the database."""
        self._trying.setdefault(_key(ticket), {})[ticket] = False

    def end_try(self, ticket: Ticket) -> bool:
        """It is back; True if a message for it has come meanwhile, which it may have missed."""
        key = _key(ticket)
        tickets = self._trying.get(key)
        if tickets is None:
            return False
        missed = tickets.pop(ticket, False)
        if not tickets:
            del self._trying[key]
        return missed

    def retry(self, ticket: Ticket) -> None:
        """A read that waits, and is not parked, goes to the database again."""
        self._note_wait(ticket, None)
        self.begin_try(ticket)

    def park(self, ticket: Ticket) -> None:
        """Let a read wait for a message until its deadline."""
        key = _key(ticket)
        self._parked.setdefault(key, {})[ticket] = None
        self._parked_count += 1
        self._note_wait(ticket, key)

    def settle(self, ticket: Ticket) -> None:
        """A read that waited has its answer."""
        tickets = self._by_session.get(ticket.session)
        if tickets is not None and ticket in tickets:
            del tickets[ticket]
            self._waiting -= 1
            if not tickets:
                del self._by_session[ticket.session]

    # Waking reads and ending waits. The reads that are returned are no longer parked; the caller handles them.

    def arrived(self, queue: str, *, sender: str, receiver: str | None, context: int | None) -> list[Ticket]:
        """A message is in a queue, for one receiver or for anyone; returns the reads to try again."""
        woken: list[Ticket] = []
        for key in (queue, ANY_QUEUE) if self._parked or self._trying else ():
            trying = self._trying.get(key, {})
            for ticket in trying:
                trying[ticket] = trying[ticket] or _matches(ticket, sender, receiver, context)
            chosen = []
            for ticket in self._parked.get(key, ()):
                if _matches(ticket, sender, receiver, context):
                    chosen.append(ticket)
                    if receiver is None and _takes_anything(ticket, sender):
                        break
            woken += self._unpark(chosen, key)
        return woken

    def wake_all(self, queues: Iterable[str] | None = None) -> list[Ticket]:
        """Something may be in these queues, or in any, for an unknown receiver; returns the reads to try again."""
        woken: list[Ticket] = []
        for key in {*self._parked, *self._trying} if queues is None else {*queues, ANY_QUEUE}:
            trying = self._trying.get(key, {})
            for ticket in trying:
                trying[ticket] = True
            woken += self._unpark(list(self._parked.get(key, ())), key)
        return woken

    def asks(self) -> dict[Ask, list[Ticket]]:
        """The parked reads, by what they are after."""
        asks: dict[Ask, list[Ticket]] = {}
        for tickets in self._parked.values():
            for ticket in tickets:
                selection = _selection(ticket)
                ask = Ask(ticket.session.client, selection.queue, selection.sender, selection.context)
                asks.setdefault(ask, []).append(ticket)
        return asks

    def wake(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Something may be ready for these reads; returns those that are still parked, to try again."""
        woken: list[Ticket] = []
        for ticket in tickets:
            if (key := self._by_session.get(ticket.session, {}).get(ticket)) is not None:
                woken += self._unpark([ticket], key)
        return woken

    def expire(self, now: float) -> list[Ticket]:
        """The reads whose time is up. One that is in the database is answered when it is back."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now:
            ticket = heapq.heappop(self._deadlines)[2]
            if self._stop_waiting(ticket):
                expired.append(ticket)
        return expired

    def next_deadline(self) -> float | None:
        """When to look for expired reads again; None: no read waits."""
        while self._deadlines and not self._waits(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def find(self, session: Session, request_id: int) -> Ticket | None:
        """A read that waits; None if it does not wait (any more)."""
        tickets = self._by_session.get(session, ())
        return next((ticket for ticket in tickets if ticket.request.id == request_id), None)

    def cancel(self, ticket: Ticket, now: float) -> bool:
        """End the wait of a read; False if it is in the database, from where it will not be parked again."""
        return bool(self._end_waits([ticket], now))

    def cancel_session(self, session: Session, now: float) -> list[Ticket]:
        """End the waits of a client that has to leave."""
        return self._end_waits(list(self._by_session.get(session, {})), now)

    def cancel_all(self) -> list[Ticket]:
        """End every wait."""
        parked = [ticket for tickets in self._parked.values() for ticket in tickets]
        return [ticket for ticket in parked if self._stop_waiting(ticket)]

    def forget(self, session: Session) -> list[Ticket]:
        """Drop the reads of a client that has gone, without an answer; returns those that were parked."""
        tickets = self._by_session.pop(session, {})
        self._waiting -= len(tickets)
        for ticket, key in tickets.items():
            if key is not None:
                self._remove(ticket, key)
        return [ticket for ticket, key in tickets.items() if key is not None]

    def _end_waits(self, tickets: list[Ticket], now: float) -> list[Ticket]:
        for ticket in tickets:
            ticket.deadline = now
        return [ticket for ticket in tickets if self._stop_waiting(ticket)]

    def _stop_waiting(self, ticket: Ticket) -> bool:
        """Remove a parked read; False if it is not parked."""
        key = self._by_session.get(ticket.session, {}).get(ticket)
        if key is None:
            return False
        self._remove(ticket, key)
        self.settle(ticket)
        return True

    def _unpark(self, tickets: list[Ticket], key: str) -> list[Ticket]:
        """Send reads to the database again."""
        for ticket in tickets:
            self._remove(ticket, key)
            self.retry(ticket)
        return tickets

    def _remove(self, ticket: Ticket, key: str) -> None:
        tickets = self._parked[key]
        del tickets[ticket]
        self._parked_count -= 1
        if not tickets:
            del self._parked[key]

    def _note_wait(self, ticket: Ticket, key: str | None) -> None:
        tickets = self._by_session.setdefault(ticket.session, {})
        if ticket not in tickets:
            self._waiting += 1
            heapq.heappush(self._deadlines, (ticket.deadline, next(self._numbers), ticket))
            if len(self._deadlines) > 2 * self._waiting + MAX_STALE_DEADLINES:
                tickets[ticket] = key
                self._deadlines = [entry for entry in self._deadlines if self._waits(entry[2])]
                heapq.heapify(self._deadlines)
        tickets[ticket] = key

    def _waits(self, ticket: Ticket) -> bool:
        return ticket in self._by_session.get(ticket.session, ())


def _selection(ticket: Ticket) -> Selection:
    selection: Selection = ticket.request.selection  # type: ignore[union-attr]  # only reads wait
    return selection


def _key(ticket: Ticket) -> str:
    return _selection(ticket).queue or ANY_QUEUE


def _matches(ticket: Ticket, sender: str, receiver: str | None, context: int | None) -> bool:
    """Whether a read may be given a message."""
    selection = _selection(ticket)
    return (
        receiver in (None, ticket.session.name)
        and selection.sender in (None, sender)
        and selection.context in (None, context)
    )


def _takes_anything(ticket: Ticket, sender: str) -> bool:
    """Whether a read takes any message for anyone. A peek does not, nor a read of the sender, who may be excluded."""
    selection = _selection(ticket)
    return (
        selection.sender is None
        and selection.context is None
        and type(ticket.request) is not Peek
        and ticket.session.name != sender
    )
