"""Interests: the queues for which this and other brokers have waiting reads, and which brokers to notify of a send."""

from __future__ import annotations

from stafette.broker.core.waiting_reads import ANY_QUEUE


class Interests:
    """What one broker has announced to the others, and what they have announced."""

    def __init__(self) -> None:
        self.announced: set[str] = set()
        """The queues that are announced to the other brokers: reads wait for them here."""
        self.has_news = False
        """Whether a read waits for a queue that has not been announced."""
        self.notifications: set[tuple[int, str]] = set()
        """Brokers to notify, each with the queue that has a new message."""
        self._elsewhere: dict[str, set[int]] = {}

    def parked(self, queue: str | None) -> None:
        """A read waits for a queue here."""
        if (queue or ANY_QUEUE) not in self.announced:
            self.has_news = True

    def sent(self, queue: str) -> None:
        """A queue has a new message: notify the brokers with reads that wait for it."""
        if self._elsewhere:
            for broker in self._elsewhere.get(queue, set()) | self._elsewhere.get(ANY_QUEUE, set()):
                self.notifications.add((broker, queue))

    def learn(self, elsewhere: dict[str, set[int]]) -> None:
        """Replace the other brokers' interests. New ones are notified at once: a send may have come before them."""
        before, self._elsewhere = self._elsewhere, elsewhere
        for queue, brokers in elsewhere.items():
            self.notifications |= {(broker, queue) for broker in brokers - before.get(queue, set())}

    def take_notifications(self) -> list[tuple[int, str]]:
        """Remove and return the notifications that are due, in a fixed order."""
        notifications, self.notifications = self.notifications, set()
        return sorted(notifications)
