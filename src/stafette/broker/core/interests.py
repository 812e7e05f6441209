"""Interests: for which queues this broker and the others have reads that wait, and who is to be notified of a send."""

from __future__ import annotations

from stafette.broker.core.waiting_reads import ANY_QUEUE


class Interests:
    """What one broker has announced to the others, and what they have announced."""

    def __init__(self) -> None:
        self.announced: set[str] = set()
        """The queues of which the others know that reads wait for them here."""
        self.has_news = False
        """Whether a read waits for a queue that has not been announced."""
        self.notifications: set[tuple[int, str]] = set()
        """Brokers to notify, each with the queue that has something new."""
        self._elsewhere: dict[str, set[int]] = {}

    def parked(self, queue: str | None) -> None:
        """A read waits for a queue here."""
        if (queue or ANY_QUEUE) not in self.announced:
            self.has_news = True

    def sent(self, queue: str) -> None:
        """Something new is in a queue: notify whoever waits for it elsewhere."""
        if self._elsewhere:
            for broker in self._elsewhere.get(queue, set()) | self._elsewhere.get(ANY_QUEUE, set()):
                self.notifications.add((broker, queue))

    def learn(self, elsewhere: dict[str, set[int]]) -> None:
        """Replace what the others have announced. New interests are notified at once: a send may have come before."""
        before, self._elsewhere = self._elsewhere, elsewhere
        for queue, brokers in elsewhere.items():
            self.notifications |= {(broker, queue) for broker in brokers - before.get(queue, set())}

    def take_notifications(self) -> list[tuple[int, str]]:
        """The notifications that are due, in a fixed order; they are not due any more."""
        notifications, self.notifications = self.notifications, set()
        return sorted(notifications)
