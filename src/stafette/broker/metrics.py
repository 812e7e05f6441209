"""The metrics of a broker: plain counters that are cheap to increment, and are formatted only when read.

All are incremented on the event loop and may be read from any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate

from stafette.protocol.messages import Answer, Failed, Leases, Messages, Receive, Request, Sent

BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Histogram:
    """Counts of values between bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def cumulative_counts(self) -> list[tuple[str, float]]:
        """The number of values up to each bound; the last bound is infinite."""
        return list(zip((*map(str, self.bounds), "+Inf"), accumulate(self.counts), strict=True))


class Metrics:
    """The counters of one broker process."""

    def __init__(self) -> None:
        self.answered: defaultdict[type[Request], int] = defaultdict(int)
        """Answers to accepted requests, by kind."""
        self.failed: defaultdict[tuple[type[Request], str], int] = defaultdict(int)
        """Errors among them, by kind and group: caller, again or ours."""
        self.sent = 0
        """Messages sent, one per queue."""
        self.handed_out = 0
        """Messages received or leased."""
        self.batch_requests = Histogram(BATCH_BOUNDS)
        self.queue_seconds = Histogram(SECONDS_BOUNDS)
        """From accepting a request to its first database call."""
        self.database_seconds = Histogram(SECONDS_BOUNDS)
        """Per batch."""
        self.secrets_checked = 0
        """Secrets hashed or compared with a hash: each takes some 40 ms of a processor."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self.kept = 0
        """Messages received in answers that nobody has named as seen, of all brokers together, as of the last round."""
        self.to_delete = 0
        """Entries of the list of what upkeep has yet to delete, of all brokers together, as of the last round."""
        self.rounds: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Rounds of maintenance, by service and outcome."""

    def answer(self, request: Request, answer: Answer) -> None:
        """Count an answer, and the messages in it."""
        kind = type(request)
        self.answered[kind] += 1
        if type(answer) is Sent:
            self.sent += len(answer.ids[0]) if len(answer.ids) == 1 else sum(map(len, answer.ids))
        elif type(answer) is Messages:
            if kind is Receive:
                self.handed_out += len(answer.messages)
        elif type(answer) is Leases:
            self.handed_out += len(answer.leases)
        elif type(answer) is Failed:
            self.failed[kind, answer.group] += 1

    def requests(self) -> dict[tuple[str, str], int]:
        """Answers by the name of the operation and the outcome: ok, caller, again or ours."""
        failed = self.failed.copy()
        counts = {(kind.__name__, group): count for (kind, group), count in failed.items()}
        for kind, count in self.answered.copy().items():
            counts[kind.__name__, "ok"] = count - sum(
                n for (failed_kind, _), n in failed.items() if failed_kind is kind
            )
        return counts
