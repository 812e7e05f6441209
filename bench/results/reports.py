"""The claims of the reports, each with a short text and the shape that checks it here.

The texts are short forms of `original` in the experiment's file, which has all numbers. If a report gives no result,
there is nothing to compare: then the shapes only describe what was measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.results.evidence import of
from bench.results.shapes import (
    Shape,
    all_seen,
    as_many,
    as_offered,
    best_within,
    breaks_down,
    falls,
    grows_alone,
    holds_up,
    in_order,
    mean_within,
    mostly_below,
    ramp_saturates,
    rises,
    saturates,
    slower,
    slower_with_backlog,
    stays,
    steady,
    straight,
    strongest,
    takes_most,
    times_more_than,
    weak,
)


@dataclass(frozen=True)
class Claim:
    """One finding of a report."""

    says: str
    """Empty if the report gives no result."""
    shape: Shape
    reason: str = ""
    """The probable reason if it is different here."""


SEND, READ, QUEUES = of("send"), of("receive"), of("waiting_queues")
ALL_KINDS = "peek-1-query-1-send-1-delete-1"
TWO_CORES = "all tiers share two cores here, and one broker with a few connections already keeps them busy"
ONE_BATCH = "requests that arrive together share a call of the database, so a few connections are enough"
INDEXED = "reads are index scans from the start, so what is stored does not slow them"


def without_claims(*shapes: Shape) -> list[Claim]:
    """Shapes to describe an experiment whose report gives no result."""
    return [Claim("", shape) for shape in shapes]


REPORTS: dict[str, Sequence[Claim]] = {
    "ftab-1": [
        Claim("steady over two hours", steady()),
        Claim("as many sends as reads, 309/s each", as_many(SEND, READ)),
        Claim("a read takes longer than a send: 48.1 and 42.9 ms", slower(READ, SEND)),
    ],
    "ftab-2": [
        Claim("neither many nor few connections are best", best_within("mean_ms", "connections"), ONE_BATCH),
        Claim("few connections make response times longer", falls("mean_ms", "connections", between=(1, 5)), ONE_BATCH),
    ],
    "ftab-3": [
        Claim("reads grow slower as the database grows", slower_with_backlog(READ), INDEXED),
        Claim("sends do not", steady(SEND, ("mean_ms",))),
    ],
    "ftab-4": [
        Claim(
            "mean response time of sends is close to a straight line in the clients, 21.8 to 146.0 ms",
            straight("mean_ms", "each", SEND),
        ),
    ],
    "ftab-5": [
        Claim("steady, whatever is stored", steady(READ, ("mean_ms",))),
        Claim("50 readers wait longer than 10: 78.2 and 39.2 ms", rises("mean_ms", "bobs", READ)),
    ],
    "ftab-6": [
        Claim("fewer sends per second to ten queues than to one", falls("throughput", "targets", SEND)),
        Claim("fewer sends per second of 2000 bytes than of 100", falls("throughput", "size", SEND)),
        Claim("more readers cost senders throughput", falls("throughput", "bobs", SEND)),
        Claim("more senders wait longer", rises("mean_ms", "alices", SEND)),
    ],
    "ftab-7": [
        Claim("the number of clients costs most", strongest("mean_ms", "each")),
        Claim("more threads help sends", rises("throughput", "connections", SEND), ONE_BATCH),
        Claim("more servers help sends", rises("throughput", "brokers", SEND), TWO_CORES),
    ],
    "ftab-8": [
        Claim("reads grow slower along with what is stored", slower_with_backlog(READ), INDEXED),
        Claim("sends do, too", slower_with_backlog(SEND), INDEXED),
        Claim("asking for queues does not slow down", steady(QUEUES, ("mean_ms",))),
    ],
    "asl15-2k": [
        Claim("clients change throughput most", strongest("throughput", "clients")),
        Claim("clients change response time most", strongest("mean_ms", "clients")),
        Claim("size explains 3.3 %", weak("throughput", "size", 10)),
        Claim("another middleware helps 96 clients", rises("throughput", "middlewares", clients=96), TWO_CORES),
    ],
    "asl15-database": [
        Claim(
            "most queries (18,000/s), then peeks, sends and the mix (8,500/s), at 16 connections",
            in_order("throughput", "workload", ["query-1", "peek-1", "send-1", ALL_KINDS], connections=16),
        ),
        Claim(
            "throughput grows up to 16 connections",
            rises("throughput", "connections", workload=ALL_KINDS),
            "two cores are busy with fewer",
        ),
    ],
    "asl15-echo": [
        Claim("throughput grows up to 128 clients", rises("throughput", "clients", between=(8, 128)), TWO_CORES),
        Claim(
            "several times what goes through the database: 50,000 and 8,500/s", times_more_than("asl15-throughput", 2)
        ),
    ],
    "asl15-message-size": [
        Claim("throughput falls negligibly", stays("throughput", "size")),
        Claim("response time rises slightly", stays("mean_ms", "size")),
    ],
    "asl15-middlewares": [
        Claim("a second middleware shortens response time clearly", falls("mean_ms", "brokers"), TWO_CORES),
    ],
    "asl15-scalability": [
        Claim(
            "with one middleware, 16 connections do more than one",
            rises("throughput", "connections", brokers=1),
            ONE_BATCH,
        ),
        Claim(
            "with one connection each, two middlewares do more than one",
            rises("throughput", "brokers", connections=1),
            TWO_CORES,
        ),
        Claim("from 16 connections in all on, nothing changes", stays("throughput", "brokers", connections=16)),
    ],
    "asl15-stability": [
        Claim("throughput is almost exactly what is offered", as_offered("mix")),
        Claim("response time stays level", steady(metrics=("mean_ms",))),
        Claim("less than 10 ms", mean_within(0, 10)),
    ],
    "asl15-think-time": [
        Claim("up to 4 ms of pause throughput hardly changes", stays("throughput", "think_time", between=(0, 0.004))),
        Claim("beyond it falls rapidly", falls("throughput", "think_time", between=(0.004, 0.016))),
        Claim("response time falls, too", falls("mean_ms", "think_time")),
    ],
    "asl15-throughput": [
        Claim("throughput is all but full at 64 clients", saturates("clients", upto=64)),
        Claim("response time grows throughout", rises("mean_ms", "clients")),
        Claim(
            "what grows is the wait for a connection, not the call",
            grows_alone("queue_ms", "clients"),
            "a batch that gathers while the last call is under way makes the next call longer instead",
        ),
    ],
    "mlmq-2h": [
        Claim("stable", steady()),
        Claim("a receive takes longer than a send, by 2 to 3 ms", slower(READ, SEND, "p50_ms")),
        Claim("sends are more predictable", slower(READ, SEND, "stddev_ms")),
    ],
    "mlmq-2k": [
        Claim("clients change the median most: weight 3.43 of at most 0.56 for others", strongest("p50_ms", "clients")),
        Claim("brokers hardly change it: weight at most 0.19", weak("p50_ms", "brokers", 10), TWO_CORES),
    ],
    "mlmq-database-load": [
        Claim("saturated at about 80 of 450 clients", ramp_saturates("one_way", (20, 160))),
        Claim("it does not break down with 450", holds_up("one_way")),
    ],
    "mlmq-micro": [
        Claim("a receive takes longer than a send: 8.954 and 6.832 ms", slower(READ, SEND, "p50_ms")),
        Claim("most of the time is the database's: 59 and 69 %", takes_most("database_ms")),
    ],
    "mlmq-middleware-load": [
        Claim(
            "performance drops suddenly at about 50 clients",
            breaks_down("one_way"),
            "a full broker refuses with an answer, and nobody times out, goes away and comes back",
        ),
    ],
    "mlmq-network": [
        Claim(
            "the network carries more than the system: not a bottleneck", times_more_than("mlmq-database-load", 1.0)
        ),
        Claim("with 2000 bytes it carries less: 6,188 and 625,000/s", falls("throughput", "size")),
    ],
    "telesto-clients": without_claims(saturates("each"), rises("mean_ms", "each")),
    "telesto-connections": without_claims(stays("throughput", "connections"), stays("mean_ms", "connections")),
    "telesto-middlewares": without_claims(*(rises("throughput", "brokers", each=each) for each in (5, 30, 80))),
    "telesto-retry-delay": without_claims(falls("throughput", "retry_delay"), falls("mean_ms", "retry_delay", READ)),
    "telesto-stability": without_claims(steady(), steady(SEND), steady(READ)),
    "telesto-workers": without_claims(rises("throughput", "workers"), falls("mean_ms", "workers")),
    "telesto-workers-connections": without_claims(
        rises("throughput", "workers", connections=1), rises("throughput", "workers", connections=16)
    ),
    "mepas-2k": without_claims(strongest("throughput", "workers"), strongest("mean_ms", "workers")),
    "mepas-clients": without_claims(saturates("clients"), rises("mean_ms", "clients")),
    "mepas-end-to-end": [Claim("every request is seen in both tiers, and no other", all_seen())],
    "mepas-message-size": without_claims(stays("throughput", "size"), stays("mean_ms", "size")),
    "mepas-stability": [
        Claim("stable for an hour", steady()),
        Claim("most of the time is the wait for a thread: 13.3 of 16.7 ms", takes_most("queue_ms"), ONE_BATCH),
        Claim("99.77 % within 50 ms", mostly_below(50, 0.9977)),
        Claim("listing queues is quickest: 15.8 ms", slower(SEND, QUEUES)),
    ],
}  # fmt: skip
