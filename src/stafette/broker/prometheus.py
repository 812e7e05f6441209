"""Metrics for Prometheus: names `stafette_*`, seconds and bytes, labels from short fixed lists only.

A scrape reads the broker's own counters. Each worker serves its own, the first on the configured port, the next on the
port after it, and so on; Prometheus adds them up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from stafette.broker.metrics import Histogram
from stafette.broker.runtime import Runtime
from stafette.errors import Unavailable

HOST = "127.0.0.1"
"""Metrics are served to this machine only; use a proxy with authentication for others."""


Labels = TypeVar("Labels", bound=tuple[str, ...])


class BrokerCollector(Collector):
    """Converts a broker's metrics for Prometheus at each scrape."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        core, metrics = self._runtime.core, self._runtime.core.metrics
        yield _gauge("clients_connected", "Clients with a session.", len(core.sessions))
        yield _gauge("connections", "Open connections, with or without a session.", len(core.connected))
        yield _gauge("hellos_pending", "Hellos that wait for their welcome.", core.hellos.pending)
        yield _gauge("requests_in_flight", "Requests in the dispatcher or the database.", core.dispatcher.outstanding)
        yield _gauge("in_flight_bytes", "Bytes of requests in flight.", core.admission.bytes)
        yield _gauge("arriving_bytes", "Bytes of large frames that are arriving.", core.large_frames.bytes)
        unsent = sum(session.connection.unsent for session in core.connected.copy())
        yield _gauge("unsent_bytes", "Bytes of answers that clients have yet to read.", unsent)
        yield _gauge("reads_parked", "Reads that wait for a message.", len(core.waiting))
        yield _gauge("uptime_seconds", "Since the start of this process.", self._runtime.uptime)
        yield _counter("requests", "Answers to accepted requests.", ("operation", "outcome"), metrics.requests())
        refusals = {(reason,): count for reason, count in core.admission.refusals.copy().items()}
        yield _counter("refusals", "Requests and connections refused at once.", ("reason",), refusals)
        yield _gauge("received_kept", "Messages received in answers that are not named as seen.", metrics.kept)
        yield _gauge("discarded", "What was deleted or purged and is still stored.", metrics.to_delete)
        yield _counter("refused_bytes", "Bytes of requests refused by size.", (), {(): core.admission.refused_bytes})
        rounds = metrics.rounds.copy()
        yield _counter("upkeep_rounds", "Rounds of each maintenance service.", ("service", "outcome"), rounds)
        unreadable = {(): self._runtime.store.messages.unreadable}
        yield _counter("unreadable", "Requests that failed because a stored message cannot be read.", (), unreadable)
        yield _counter("secrets_checked", "Secrets hashed or compared.", (), {(): metrics.secrets_checked})
        batches = {(): sum(metrics.batch_requests.counts)}
        yield _counter("batches", "Database calls for requests.", (), batches)
        yield _counter("received_bytes", "Bytes from clients.", (), {(): metrics.received_bytes})
        yield _counter("sent_bytes", "Bytes to clients.", (), {(): metrics.sent_bytes})
        yield _histogram("batch_requests", "Requests in one database call.", metrics.batch_requests)
        yield _histogram("queue_seconds", "From accepting a request to its first database call.", metrics.queue_seconds)
        yield _histogram("database_seconds", "Duration of a database call.", metrics.database_seconds)


@contextlib.contextmanager
def serve_metrics(runtime: Runtime, port: int) -> Iterator[int]:
    """Serve a broker's metrics on a port, or with 0 on any; yields the port."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(runtime))
    try:
        server, thread = start_http_server(port, HOST, registry)
    except (OSError, OverflowError) as error:
        raise Unavailable(
            f"cannot serve metrics on {HOST}:{port}: {getattr(error, 'strerror', None) or error};"
            " choose another --metrics-port (each worker takes one, counting up)"
        ) from error
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"stafette_{name}", text, value=value)


def _counter(name: str, text: str, labels: tuple[str, ...], values: Mapping[Labels, int]) -> Metric:
    family = CounterMetricFamily(f"stafette_{name}", text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(f"stafette_{name}", text)
    family.add_metric((), histogram.cumulative_counts(), histogram.total)
    return family
