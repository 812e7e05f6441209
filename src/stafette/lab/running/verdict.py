"""Whether a run can be trusted: checks over all of its rows, in both tiers, before anyone reads its metrics.

Each check has an expected and an actual value and a detail, also when it holds. A run is valid when every check holds
that is not advisory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stafette.lab.running.trace_rows import Integers, Rows, TierRows
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.laws import Flow, littles_law
from stafette.runs.outcomes import EMPTYING, REMOVING, SENDING, UNANSWERED, UNCERTAIN
from stafette.runs.records import Check, Done, Verdict
from stafette.runs.summary import Summary
from stafette.runs.window import Window

BUSY = 0.9
"""Share of a core, used or waited for, from which a load process counts as the bottleneck."""
LATE_MS, LATE_SHARE = 5.0, 0.1
"""Steps may start late by so much, or by this share of the mean response time."""
OFFERED_SHARE = 0.95
OFFERED_DEVIATIONS = 3.0
"""How far the offered rate may fall behind. It must pass both bounds, because a short run of random arrivals may be 5 %
behind by chance."""
CLOCK_TOLERANCE_NS = 1_000_000


@dataclass(frozen=True)
class RunContext:
    """What the checks need besides the rows."""

    nodes: Sequence[str]
    """Every process that should write an end report."""
    preloaded: int = 0
    remaining: int | None = None
    """Messages in the system after the run: ready, leased, delayed and dead. None: not counted, so not checked."""
    workers: Mapping[str, Done] = field(default_factory=dict)
    """The end of each load process, by the name of its node."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Intended steps per second of each open-loop group, by its name."""
    closed_loop: ClosedLoop | None = None
    brokers: bool = True
    """False when the load went to the database directly."""
    faults: bool = False
    """Whether the experiment injects faults; requests without an answer are then expected."""


def check(rows: Rows, summary: Summary, run: RunContext) -> list[Check]:
    """Every check that applies to a run, in the order in which to read them."""
    checks = [_check_complete(rows, run.nodes), _check_answered(rows, run.faults)]
    if run.brokers:
        join = _join(rows)
        checks += [_check_seen(rows, join), _check_agreement(rows, join)]
    if run.remaining is not None:
        checks.append(_check_messages(rows, run.preloaded, run.remaining, brokers=run.brokers))
    checks.append(_check_generator(rows, summary, run))
    if run.closed_loop is not None:
        checks.append(_check_littles_law(summary, run.closed_loop))
    return checks


def verdict(checks: Sequence[Check]) -> Verdict:
    """The verdict from the checks: the details of those that failed, the advisory ones last."""
    failed = sorted((check for check in checks if not check.ok), key=lambda check: check.advisory)
    details = [check.sentence for check in failed] or [f"all {len(checks)} checks hold"]
    return Verdict(all(check.advisory for check in failed), details)


def _check_complete(rows: Rows, nodes: Sequence[str]) -> Check:
    silent = Counter(nodes) - Counter(report.node for report in rows.reports)
    problems = [f"{node} left no end report" for node in sorted(silent)]
    reported: Counter[tuple[str, str]] = Counter()
    for report in rows.reports:
        reported[report.tier, report.node] += report.rows  # processes may share a node's name
        if report.dropped:
            problems.append(f"{report.node} dropped {report.dropped:,} rows ({report.why or 'no reason given'})")
    for (tier, node), count in reported.items():
        if count != (written := rows.written.get((tier, node), 0)):
            problems.append(f"{node} reported {count:,} rows, but its files have {written:,}")
    expected = f"{reported.total():,} rows of {len(nodes):,} processes"
    actual = f"{sum(rows.written.values()):,} rows of {len(rows.reports):,} processes"
    detail = f"the trace is complete: {actual}"
    if problems:
        detail = f"the trace is not complete: {'; '.join(problems)}"
    return Check("complete", not problems, expected, actual, detail)


def _check_answered(rows: Rows, faults: bool) -> Check:
    tier = rows.client
    sent = tier.request > 0
    unanswered = sent & rows.with_outcome(tier, UNANSWERED)
    sent_count, lost = int(np.count_nonzero(sent)), int(np.count_nonzero(unanswered))
    by_name = np.bincount(tier.outcome[unanswered], minlength=len(rows.outcomes))
    names = ", ".join(f"{count:,} {name}" for name, count in zip(rows.outcomes, by_name, strict=True) if count)
    detail = f"every request that was sent was answered, {sent_count:,} in all"
    if lost:
        detail = f"of {sent_count:,} requests {lost:,} had no answer ({names}); they are not in the response times"
    return Check("answered", not lost, f"{sent_count:,} answers", f"{sent_count - lost:,} answers", detail, faults)


# The two rows of a request


@dataclass(frozen=True)
class _Join:
    """Which rows of the two tiers belong together."""

    client: NDArray[np.intp]
    broker: NDArray[np.intp]
    """The rows of answered requests in both tiers, as positions in the tier."""
    unseen: NDArray[np.intp]
    """Client rows of answered requests that no broker row matches."""
    unmatched: NDArray[np.intp]
    """Broker rows that no client row matches."""
    repeated: dict[str, int]
    """Number of rows beyond the first one of their request, by tier."""


def _join(rows: Rows) -> _Join:
    """Merge the tiers by client and request; both are sorted once."""
    client_keys, broker_keys = _keys(rows.client, rows.broker)
    sent = np.flatnonzero(rows.client.request > 0)
    sent = sent[np.argsort(client_keys[sent])]
    served = np.argsort(broker_keys)
    sent_keys, served_keys = client_keys[sent], broker_keys[served]
    answered = ~rows.with_outcome(rows.client, UNANSWERED)[sent]
    positions, has_match = _find_positions(sent_keys, served_keys)
    paired = answered & has_match
    return _Join(
        client=sent[paired],
        broker=served[positions[paired]],
        unseen=sent[answered & ~has_match],
        unmatched=served[~_find_positions(served_keys, sent_keys)[1]],
        repeated={
            tier: int(np.count_nonzero(keys[1:] == keys[:-1]))
            for tier, keys in (("client", sent_keys), ("broker", served_keys))
        },
    )


def _keys(client: TierRows, broker: TierRows) -> tuple[Integers, Integers]:
    """One number for client and request together, in each tier."""
    requests = np.concatenate([client.request, broker.request])
    clients = np.concatenate([client.client, broker.client])
    most = int(requests.max(initial=0)) + 1
    if most * (int(clients.max(initial=0)) + 1) > np.iinfo(np.int64).max:  # number them without gaps
        numbers, requests = np.unique(requests, return_inverse=True)
        most = len(numbers)
    keys: Integers = clients * np.int64(most) + requests
    return keys[: len(client)], keys[len(client) :]


def _find_positions(keys: Integers, sorted_keys: Integers) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The first position of each key in the sorted keys, and whether it is among them."""
    if not len(sorted_keys):
        return np.zeros(len(keys), dtype=np.intp), np.zeros(len(keys), dtype=np.bool_)
    positions = np.searchsorted(sorted_keys, keys)
    return positions, sorted_keys[np.minimum(positions, len(sorted_keys) - 1)] == keys


def _check_seen(rows: Rows, join: _Join) -> Check:
    problems = [
        f"{len(indexes):,} {what} (such as request {tier.request[indexes[0]]}"
        f" of {rows.clients[tier.client[indexes[0]]]})"
        for indexes, tier, what in (
            (join.unseen, rows.client, "answered requests are in no broker's trace"),
            (join.unmatched, rows.broker, "rows of brokers belong to no client's request"),
        )
        if len(indexes)
    ]
    problems += [
        f"{count:,} rows of the {tier} tier repeat a request" for tier, count in join.repeated.items() if count
    ]
    pairs = len(join.client)
    expected = f"{pairs + len(join.unseen):,} requests, one row in each tier"
    detail = f"every answered request was seen by exactly one broker, {pairs:,} in all"
    if problems:
        detail = f"the tiers do not match: {'; '.join(problems)}"
    return Check("seen", not problems, expected, "; ".join(problems) or expected, detail)


def _check_agreement(rows: Rows, join: _Join) -> Check:
    """Compare outcomes and lengths of time; not moments, because clocks may differ.

    The broker's write does not count: the client may have its answer, and the processor, before the broker reads its
    clock again. All before the write happens while the client waits, so it cannot take longer than the client's span.
    """
    client, broker, pairs = rows.client, rows.broker, len(join.client)
    differing = int(np.count_nonzero(client.outcome[join.client] != broker.outcome[join.broker]))
    outside = client.end[join.client] - client.start[join.client]
    inside = (broker.end - np.maximum(broker.write, 0) - broker.start)[join.broker]
    longer = int(np.count_nonzero(inside > outside + CLOCK_TOLERANCE_NS))
    actual = f"{differing:,} outcomes differ, {longer:,} spans are too long"
    detail = f"client and broker agree on all {pairs:,} requests"
    if differing or longer:
        detail = (
            f"client and broker disagree: of {pairs:,} requests {differing:,} ended differently in the broker's trace, "
            f"{longer:,} took longer there than for the client that waited"
        )
    return Check("agreement", not differing and not longer, "0 outcomes differ, 0 spans are too long", actual, detail)


# What went in and what came out


def _check_messages(rows: Rows, preloaded: int, remaining: int, *, brokers: bool) -> Check:
    sent, doubtful_sends, most_stored = _count_moved(rows, SENDING, brokers)
    received, doubtful_takes, most_removed = _count_moved(rows, REMOVING, brokers)
    emptied = bool(np.any(rows.with_operation(rows.client, EMPTYING)))
    missing = preloaded + sent - received - remaining
    explained = -most_stored <= missing and (emptied or missing <= most_removed)
    balance = f"{preloaded:,} preloaded + {sent:,} sent = {received:,} received + {remaining:,} left"
    doubts = [
        f"{count:,} {what} whose effect is not known"
        for count, what in ((doubtful_sends, "sends"), (doubtful_takes, "receives"))
        if count
    ]
    doubts += ["queues that were deleted"] * emptied
    detail = f"no message was lost or doubled: {balance}"
    if missing:
        amount = f"{abs(missing):,} message{'s' * (abs(missing) > 1)} {'missing' if missing > 0 else 'too many'}"
        reason = "nothing explains it"
        if doubts:
            reason = f"{' and '.join(doubts)} {'can' if explained else 'cannot'} explain it"
        detail = f"{amount}, and {reason}: {balance.replace('=', 'against')}"
    return Check("messages", explained, f"{preloaded + sent:,} messages", f"{received + remaining:,} messages", detail)


def _count_moved(rows: Rows, operations: Collection[str], brokers: bool) -> tuple[int, int, int]:
    """Messages that were moved, requests with an unknown effect, and the most messages that these may have moved.

    We assume that a request without an answer moved at most as many messages as the largest one with an answer.
    """
    tier = rows.client
    matching = rows.with_operation(tier, operations)
    counts = tier.messages[matching & rows.with_outcome(tier, {"ok"})]
    was_sent = (tier.request > 0) | (not brokers)  # a request that was not sent has had no effect
    doubtful = int(np.count_nonzero(matching & was_sent & rows.with_outcome(tier, UNCERTAIN)))
    return int(counts.sum()), doubtful, doubtful * int(counts.max(initial=1))


# Who was measured: the system, or the generator


def _check_generator(rows: Rows, summary: Summary, run: RunContext) -> Check:
    bound = max(LATE_MS, LATE_SHARE * (summary.overall.mean_ms or 0.0))
    problems = []
    for node, worker in run.workers.items():
        if worker.cpu_share + worker.starved_share >= BUSY:
            waited = f" and waited for one {worker.starved_share:.0%} of the time"
            problems.append(f"{node} used {worker.cpu_share:.0%} of a core{waited * (worker.starved_share > 0)}")
        if run.rates and worker.late_ms.mean > bound:
            problems.append(f"{node} started its steps {worker.late_ms.mean:.1f} ms late on average")
    problems += _find_slow_groups(rows, summary.window, run.rates)
    busiest = max((worker.cpu_share + worker.starved_share for worker in run.workers.values()), default=0.0)
    actual = "; ".join(problems) or f"{busiest:.0%} of a core"
    detail = f"the load generator kept up: its busiest process used, or waited for, {busiest:.0%} of a core"
    if problems:
        remedy = "a lower rate" if run.rates else "fewer clients"
        detail = (
            f"the load generator was saturated, so the figures may be its own: {actual}; "
            f"use more load_processes, more client hosts or {remedy}"
        )
    return Check("generator", not problems, f"below {BUSY:.0%} of a core, starts on time", actual, detail)


def _find_slow_groups(rows: Rows, window: Window, rates: Mapping[str, float]) -> list[str]:
    """Groups whose offered rate was lower than intended.

    Only the first request of a step has the step's intended start; the intended start of others is their actual start.
    """
    tier = rows.client
    steps = window.holds(tier.intended) & (tier.intended != tier.start)
    per_client = np.bincount(tier.client[steps], minlength=len(rows.clients))
    offered: Counter[str] = Counter()
    for name, count in zip(rows.clients, per_client, strict=True):
        offered[name.rpartition("-")[0]] += int(count)
    problems = []
    for group, rate in rates.items():
        intended = rate * window.seconds
        if offered[group] < min(OFFERED_SHARE * intended, intended - OFFERED_DEVIATIONS * intended**0.5):
            started = offered[group] / window.seconds
            problems.append(f"{group} started {started:,.1f} steps per second instead of {rate:,.1f}")
    return problems


def _check_littles_law(summary: Summary, loop: ClosedLoop) -> Check:
    parts = [part.figures for part in summary.parts]
    law = littles_law([Flow(part.throughput_per_s, (part.mean_ms or 0.0) / 1000) for part in parts], loop)
    expected, measured = (f"{clients:,.1f} clients" for clients in (loop.clients, law.measured))
    return Check("littles law", law.ok, expected, measured, law.detail, advisory=True)
