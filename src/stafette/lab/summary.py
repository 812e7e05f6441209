"""What a run came to, in the figures people ask for, over its measured window.

A row belongs to the window by its intended start, and its response time counts from there; throughput counts what was
answered within the window. Percentiles are exact and by nearest rank: of n values in order, the p-th percentile is the
one at place ceil(p·n/100), so it is always a value that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stafette.errors import InvalidRequest
from stafette.lab.rows import SUCCESSES, Flags, Rows, Whole

SENDING = frozenset({"send"})
REMOVING = frozenset({"receive", "ack"})
"""Operations whose `messages` have left the system; a lease has not, until its ack."""

_PERCENTILES = (500, 900, 950, 990, 999)  # in thousandths, so that ranks are whole numbers
_MILLISECOND = 1e6
_SECOND = 1_000_000_000


class Window(msgspec.Struct, frozen=True):
    """A stretch of time, in nanoseconds since the epoch; its end is not in it."""

    start_ns: int
    end_ns: int

    def __post_init__(self) -> None:
        if self.end_ns <= self.start_ns:
            raise InvalidRequest("a window must end after it starts; give the run a longer duration")

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end_ns - self.start_ns) / _SECOND

    def holds(self, moments: Whole) -> Flags:
        """Which moments are in it."""
        return (moments >= self.start_ns) & (moments < self.end_ns)


class Figures(msgspec.Struct, frozen=True):
    """Counts and response times; None where there is nothing to measure, or for the deviation only one value."""

    count: int
    throughput_per_s: float
    mean_ms: float | None = None
    stddev_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None


class Part(msgspec.Struct, frozen=True):
    """The requests of one operation that had one outcome."""

    operation: str
    outcome: str
    figures: Figures


class Summary(msgspec.Struct, frozen=True):
    """A run's measured window, as the clients saw it."""

    window: Window
    overall: Figures
    """Of all requests that did what they were asked: outcomes ok and empty."""
    parts: list[Part]
    """By operation and outcome, in the order of their names."""
    requests: int
    """All that were to start in the window, whatever came of them."""
    errors: int
    """Those of them that ended in an outcome other than ok and empty."""
    error_share: float
    messages_sent_per_s: float
    messages_received_per_s: float
    """Received, or acknowledged after a lease."""
    mean_in_flight: float
    """Requests under way, on average over the window: their response times, as far as in it, per time."""

    def metric(self, name: str) -> float | None:
        """A figure by the name that thresholds use; None when no request gave one, which meets no threshold."""
        if name not in METRICS:
            raise InvalidRequest(f"there is no metric {name}; the metrics are {', '.join(METRICS)}")
        return METRICS[name](self)


METRICS: dict[str, Callable[[Summary], float | None]] = {
    "throughput": lambda summary: summary.overall.throughput_per_s,
    "mean_ms": lambda summary: summary.overall.mean_ms,
    "p50_ms": lambda summary: summary.overall.p50_ms,
    "p90_ms": lambda summary: summary.overall.p90_ms,
    "p95_ms": lambda summary: summary.overall.p95_ms,
    "p99_ms": lambda summary: summary.overall.p99_ms,
    "max_ms": lambda summary: summary.overall.max_ms,
    "errors": lambda summary: float(summary.errors),
    "error_share": lambda summary: summary.error_share,
}


class PerSecond(msgspec.Struct, frozen=True):
    """A run second by second, as columns; response times and errors by intended start, throughput by answers."""

    seconds: list[int]
    """Since the load began."""
    throughput: list[float]
    mean_ms: list[float | None]
    p99_ms: list[float | None]
    errors: list[int]


def percentiles(values: NDArray[Any], thousandths: Sequence[int]) -> list[float]:
    """Percentiles by nearest rank, given in thousandths, of at least one value; puts the values in another order."""
    ranks = [max(0, -(-share * len(values) // 1000) - 1) for share in thousandths]
    values.partition(sorted(set(ranks)))
    return [float(values[rank]) for rank in ranks]


def summarise(rows: Rows, window: Window) -> Summary:
    """Sum up what the clients saw in a window."""
    tier = rows.client
    begun, answered = window.holds(tier.intended), window.holds(tier.end)
    good = rows.with_outcome(tier, SUCCESSES)
    done = answered & rows.with_outcome(tier, {"ok"})
    in_time = begun & good
    requests, successes = int(np.count_nonzero(begun)), int(np.count_nonzero(in_time))
    overall = _figures(tier.end[in_time] - tier.intended[in_time], int(np.count_nonzero(answered & good)), window)
    sent = tier.messages[done & rows.with_operation(tier, SENDING)].sum()
    received = tier.messages[done & rows.with_operation(tier, REMOVING)].sum()
    return Summary(
        window=window,
        overall=overall,
        parts=_parts(rows, window, begun, answered),
        requests=requests,
        errors=requests - successes,
        error_share=(requests - successes) / requests if requests else 0.0,
        messages_sent_per_s=float(sent) / window.seconds,
        messages_received_per_s=float(received) / window.seconds,
        mean_in_flight=_mean_in_flight(tier.intended, tier.end, window),
    )


def per_second(rows: Rows, load: Window) -> PerSecond:
    """The run's course from the start of the load to its end; a last second that is cut short counts as what it is."""
    tier = rows.client
    seconds = -((load.start_ns - load.end_ns) // _SECOND)
    lengths = np.ones(seconds)
    lengths[-1] = load.seconds - (seconds - 1)
    good = rows.with_outcome(tier, SUCCESSES)

    def second(moments: Whole) -> Whole:
        return (moments - load.start_ns) // _SECOND

    answers = np.bincount(second(tier.end[good & load.holds(tier.end)]), minlength=seconds)
    begun = load.holds(tier.intended)
    errors = np.bincount(second(tier.intended[begun & ~good]), minlength=seconds)
    measured = begun & good
    means: list[float | None] = []
    p99s: list[float | None] = []
    response = tier.end[measured] - tier.intended[measured]
    for values in _split(response, second(tier.intended[measured]), seconds):
        means.append(float(values.mean()) / _MILLISECOND if len(values) else None)
        p99s.append(percentiles(values, [990])[0] / _MILLISECOND if len(values) else None)
    return PerSecond(list(range(seconds)), (answers / lengths).tolist(), means, p99s, errors.tolist())


def _parts(rows: Rows, window: Window, begun: Flags, answered: Flags) -> list[Part]:
    tier = rows.client
    width, kinds = len(rows.outcomes), len(rows.operations) * len(rows.outcomes)
    kind = tier.operation * width + tier.outcome
    answers = np.bincount(kind[answered], minlength=kinds)
    response = tier.end[begun] - tier.intended[begun]
    parts = [
        Part(rows.operations[code // width], rows.outcomes[code % width], _figures(values, int(answers[code]), window))
        for code, values in enumerate(_split(response, kind[begun], kinds))
        if len(values) or answers[code]
    ]
    return sorted(parts, key=lambda part: (part.operation, part.outcome))


def _split(values: Whole, kinds: NDArray[Any], count: int) -> list[Whole]:
    """The values of each kind, in arrays that may be changed; kinds are numbered from 0."""
    small = kinds.astype(np.uint16) if count <= np.iinfo(np.uint16).max else kinds  # sorted by radix: ten times faster
    ordered = values[np.argsort(small, kind="stable")]
    return np.split(ordered, np.cumsum(np.bincount(kinds, minlength=count))[:-1])


def _figures(response: Whole, answers: int, window: Window) -> Figures:
    count, throughput = len(response), answers / window.seconds
    if not count:
        return Figures(0, throughput)
    spread = float(response.std(ddof=1)) / _MILLISECOND if count > 1 else None
    mean, *ranked = (
        value / _MILLISECOND for value in (float(response.mean()), *percentiles(response, (*_PERCENTILES, 1000)))
    )
    return Figures(count, throughput, mean, spread, *ranked)


def _mean_in_flight(intended: Whole, end: Whole, window: Window) -> float:
    inside = np.minimum(end, window.end_ns) - np.maximum(intended, window.start_ns)
    return float(inside[inside > 0].sum()) / (window.end_ns - window.start_ns)
