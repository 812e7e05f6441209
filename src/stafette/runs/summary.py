"""The summary of a run: its metrics, as the laboratory computes them and ``run.json`` has them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stafette.errors import InvalidRequest
from stafette.runs.window import Window


class Figures(msgspec.Struct, frozen=True):
    """Counts and response times; None without requests, and for the deviation also with only one."""

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
    """The metrics of a run's measured window, as the clients saw it."""

    window: Window
    overall: Figures
    """Of all successful requests: outcomes ok and empty."""
    parts: list[Part]
    """By operation and outcome, in the order of their names."""
    requests: int
    """All requests whose intended start is in the window, with any outcome."""
    errors: int
    """Those of them with an outcome other than ok and empty."""
    error_share: float
    messages_sent_per_s: float
    messages_received_per_s: float
    """Received, or acknowledged after a lease."""
    mean_in_flight: float
    """Mean number of requests in flight: the sum of response times, as far as they are in the window, per time."""

    def metric(self, name: str) -> float | None:
        """A metric by the name that thresholds use; None without requests, which meets no threshold."""
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
