"""Measures what a trace costs: the same load with and without tracing in both tiers, in turn, on one database.

Two brokers run all the time, one with `--trace` and one without; rounds alternate (ABBA), so that a drift of the
machine affects both alike. CPU time per request is that of broker and load generator together.

    python -m bench.tracing [--seconds 6] [--rounds 6] [--clients 64]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.broker import PORT, broker_process, children_seconds, cpu_seconds, through_broker
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres

PLAIN, TRACED = "without", "with"


@contextmanager
def brokers(folder: Path) -> Iterator[dict[str, tuple[str, int]]]:
    """URL and process id of a broker without and one with a trace."""
    server = EmbeddedPostgres(folder / "data")
    server.start()
    try:
        asyncio.run(schema.migrate(server.url))
        trace = str(folder / "broker")
        with (
            broker_process(server.url, PORT) as plain,
            broker_process(server.url, PORT + 1, "--trace", trace) as traced,
        ):
            yield {
                PLAIN: (f"stafette://127.0.0.1:{PORT}", plain),
                TRACED: (f"stafette://127.0.0.1:{PORT + 1}", traced),
            }
    finally:
        server.stop()


def measure(seconds: float, rounds: int, clients: int) -> dict[str, list[tuple[float, float]]]:
    """Requests per second and microseconds of CPU time per request, of each round, by kind of broker."""
    rounds_by_kind: dict[str, list[tuple[float, float]]] = {PLAIN: [], TRACED: []}
    with tempfile.TemporaryDirectory() as name, brokers(Path(name)) as running:
        options = {PLAIN: (), TRACED: ("--trace", str(Path(name) / "client"))}
        through_broker(seconds, clients, url=running[PLAIN][0])  # warm up the database
        for number in range(rounds):
            for kind in (PLAIN, TRACED) if number % 2 == 0 else (TRACED, PLAIN):
                url, pid = running[kind]
                broker_before, times_before = cpu_seconds(pid), os.times()
                result = through_broker(seconds, clients, *options[kind], url=url)
                generator = children_seconds(os.times()) - children_seconds(times_before)
                requests = result["requests_per_second"] * result["seconds"]
                seconds_used = cpu_seconds(pid) - broker_before + generator
                rounds_by_kind[kind].append((result["requests_per_second"], 1e6 * seconds_used / requests))
    return rounds_by_kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--clients", type=int, default=64)
    arguments = parser.parse_args()
    rounds_by_kind = measure(arguments.seconds, arguments.rounds, arguments.clients)
    for kind, rounds in rounds_by_kind.items():
        rates, costs = zip(*rounds, strict=True)
        print(
            f"{kind:8} a trace  {statistics.median(rates):8,.0f} requests/s ({min(rates):,.0f} to {max(rates):,.0f}),"
            f" {statistics.median(costs):5.1f} µs of CPU time each in broker and generator"
        )
    pairs = zip(rounds_by_kind[PLAIN], rounds_by_kind[TRACED], strict=True)
    ratios = [traced[0] / plain[0] for plain, traced in pairs]
    print(
        f"with / without, median of {len(ratios)} pairs: {statistics.median(ratios):.3f}"
        f" ({min(ratios):.3f} to {max(ratios):.3f})"
    )


if __name__ == "__main__":
    main()
