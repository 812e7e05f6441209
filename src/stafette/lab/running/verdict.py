"""Whether a run can be trusted: checks over all of its rows, in both tiers, before anyone looks at the figures.

Each says what it expected and what it found, in a sentence, also when it holds. A run is valid when every check that is
not advisory holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stafette.lab.running.trace_rows import Rows, TierRows, Whole
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.laws import Flow, littles_law
from stafette.runs.outcomes import EMPTYING, REMOVING, SENDING, UNANSWERED, UNCERTAIN
from stafette.runs.records import Check, Done, Verdict
from stafette.runs.summary import Summary
from stafette.runs.window import Window

BUSY = 0.9
"""Share of a core, used or waited for, from which a load process is taken to be the bottleneck."""
LATE_MS, LATE_SHARE = 5.0, 0.1
"""Starts may be late by so much, or by this share of the mean response time, before the generator is."""
OFFERED_SHARE = 0.95
OFFERED_DEVIATIONS = 3.0
"""How far the offered rate may fall behind: both bounds must be passed, for a short run of random arrivals may be
5 % behind by chance alone."""
CLOCK_TOLERANCE_NS = 1_000_000


@dataclass(frozen=True)
class Known:
    """What the runner knows of a run that the rows do not say."""

    nodes: Sequence[str]
    """Every process that was to write an end report."""
    preloaded: int = 0
    left: int | None = None
    """Messages in the system after the run: ready, leased, delayed and dead. None: not counted, so not checked."""
    workers: Mapping[str, Done] = field(default_factory=dict)
    """What each load process said of itself at its end, by its node's name."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Steps per second asked of each open-loop group, by its name."""
    closed_loop: ClosedLoop | None = None
    brokers: bool = True
    """False when the load went to the database directly."""
    faults: bool = False
    """Whether the experiment disturbs the system itself; requests without an answer are then expected."""


def check(rows: Rows, summary: Summary, known: Known) -> list[Check]:
    """Every check that applies to a run, in the order in which to read them."""
    checks = [_complete(rows, known.nodes), _answered(rows, known.faults)]
    if known.brokers:
        join = _join(rows)
        checks += [_seen(rows, join), _agreement(rows, join)]
    if known.left is not None:
        checks.append(_messages(rows, known.preloaded, known.left, brokers=known.brokers))
    checks.append(_generator(rows, summary, known))
    if known.closed_loop is not None:
        checks.append(_littles_law(summary, known.closed_loop))
    return checks


def verdict(checks: Sequence[Check]) -> Verdict:
    """What the checks come to: the sentences of those that failed, the serious ones first."""
    failed = sorted((check for check in checks if not check.ok), key=lambda check: check.advisory)
    sentences = [check.sentence for check in failed] or [f"all {len(checks)} checks hold"]
    return Verdict(all(check.advisory for check in failed), sentences)


def _complete(rows: Rows, nodes: Sequence[str]) -> Check:
    silent = Counter(nodes) - Counter(report.node for report in rows.reports)
    problems = [f"{node} left no end report" for node in sorted(silent)]
    reported: Counter[tuple[str, str]] = Counter()
    for report in rows.reports:
        reported[report.tier, report.node] += report.rows  # processes may share a node's name
        if report.dropped:
            problems.append(f"{report.node} dropped {report.dropped:,} rows ({report.why or 'for no reason given'})")
    for (tier, node), count in reported.items():
        if count != (there := rows.written.get((tier, node), 0)):
            problems.append(f"{node} reported {count:,} rows and {there:,} are there")
    expected = f"{reported.total():,} rows of {len(nodes):,} processes"
    found = f"{sum(rows.written.values()):,} rows of {len(rows.reports):,} processes"
    sentence = f"the trace is complete: {found}"
    if problems:
        sentence = f"the trace is not complete: {'; '.join(problems)}"
    return Check("complete", not problems, expected, found, sentence)


def _answered(rows: Rows, faults: bool) -> Check:
    tier = rows.client
    sent = tier.request > 0
    unanswered = sent & rows.with_outcome(tier, UNANSWERED)
    all_sent, lost = int(np.count_nonzero(sent)), int(np.count_nonzero(unanswered))
    by_name = np.bincount(tier.outcome[unanswered], minlength=len(rows.outcomes))
    names = ", ".join(f"{count:,} {name}" for name, count in zip(rows.outcomes, by_name, strict=True) if count)
    sentence = f"every request that was sent was answered, {all_sent:,} in all"
    if lost:
        sentence = f"of {all_sent:,} requests {lost:,} had no answer ({names}); they are not in the response times"
    return Check("answered", not lost, f"{all_sent:,} answers", f"{all_sent - lost:,} answers", sentence, faults)


# The two rows of a request


@dataclass(frozen=True)
class _Join:
    """Which rows of the two tiers belong together."""

    client: NDArray[np.intp]
    broker: NDArray[np.intp]
    """Pairs of rows, of requests that were answered, as places in their tiers."""
    unseen: NDArray[np.intp]
    """Client rows that were answered though no broker saw them."""
    strangers: NDArray[np.intp]
    """Broker rows that no client row goes with."""
    repeated: dict[str, int]
    """Rows over and above the first of their request, by tier."""


def _join(rows: Rows) -> _Join:
    """Merge the tiers by client and request: both are sorted once, so that all else is a walk along two lists."""
    client_keys, broker_keys = _keys(rows.client, rows.broker)
    sent = np.flatnonzero(rows.client.request > 0)
    sent = sent[np.argsort(client_keys[sent])]
    served = np.argsort(broker_keys)
    asked, seen = client_keys[sent], broker_keys[served]
    answered = ~rows.with_outcome(rows.client, UNANSWERED)[sent]
    place, known = _find(asked, seen)
    paired = answered & known
    return _Join(
        client=sent[paired],
        broker=served[place[paired]],
        unseen=sent[answered & ~known],
        strangers=served[~_find(seen, asked)[1]],
        repeated={
            tier: int(np.count_nonzero(keys[1:] == keys[:-1])) for tier, keys in (("client", asked), ("broker", seen))
        },
    )


def _keys(client: TierRows, broker: TierRows) -> tuple[Whole, Whole]:
    """One number for client and request together, in each tier."""
    requests = np.concatenate([client.request, broker.request])
    clients = np.concatenate([client.client, broker.client])
    most = int(requests.max(initial=0)) + 1
    if most * (int(clients.max(initial=0)) + 1) > np.iinfo(np.int64).max:  # then number the requests without gaps
        numbers, requests = np.unique(requests, return_inverse=True)
        most = len(numbers)
    keys: Whole = clients * np.int64(most) + requests
    return keys[: len(client)], keys[len(client) :]


def _find(wanted: Whole, among: Whole) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each of some sorted keys first stands among others, and whether it does."""
    if not len(among):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=np.bool_)
    place = np.searchsorted(among, wanted)
    return place, among[np.minimum(place, len(among) - 1)] == wanted


def _seen(rows: Rows, join: _Join) -> Check:
    problems = [
        f"{len(places):,} {what} (such as request {tier.request[places[0]]} of {rows.clients[tier.client[places[0]]]})"
        for places, tier, what in (
            (join.unseen, rows.client, "answered requests are in no broker's trace"),
            (join.strangers, rows.broker, "rows of brokers belong to no client's request"),
        )
        if len(places)
    ]
    problems += [
        f"{count:,} rows of the {tier} tier repeat a request" for tier, count in join.repeated.items() if count
    ]
    pairs = len(join.client)
    expected = f"{pairs + len(join.unseen):,} requests, one row in each tier"
    sentence = f"every answered request was seen by exactly one broker, {pairs:,} in all"
    if problems:
        sentence = f"the tiers do not match: {'; '.join(problems)}"
    return Check("seen", not problems, expected, "; ".join(problems) or expected, sentence)


def _agreement(rows: Rows, join: _Join) -> Check:
    """Lengths of time are compared, as clocks may differ.

    The broker's write is left out of its span: the client may have its answer, and the processor, before the broker
    comes to look at its clock again. Until then one thing leads to the other, and the client's span must hold it all.
    """
    client, broker, pairs = rows.client, rows.broker, len(join.client)
    otherwise = int(np.count_nonzero(client.outcome[join.client] != broker.outcome[join.broker]))
    outside = client.end[join.client] - client.start[join.client]
    inside = (broker.end - np.maximum(broker.write, 0) - broker.start)[join.broker]
    longer = int(np.count_nonzero(inside > outside + CLOCK_TOLERANCE_NS))
    found = f"{otherwise:,} outcomes differ, {longer:,} spans are too long"
    sentence = f"client and broker tell the same of all {pairs:,} requests"
    if otherwise or longer:
        sentence = (
            f"client and broker disagree: of {pairs:,} requests {otherwise:,} ended otherwise in the broker's trace, "
            f"{longer:,} took longer there than for the client that waited"
        )
    return Check("agreement", not otherwise and not longer, "0 outcomes differ, 0 spans are too long", found, sentence)


# What went in and what came out


def _messages(rows: Rows, preloaded: int, left: int, *, brokers: bool) -> Check:
    sent, doubtful_sends, most_stored = _moved(rows, SENDING, brokers)
    received, doubtful_takes, most_removed = _moved(rows, REMOVING, brokers)
    emptied = bool(np.any(rows.with_operation(rows.client, EMPTYING)))
    missing = preloaded + sent - received - left
    explained = -most_stored <= missing and (emptied or missing <= most_removed)
    balance = f"{preloaded:,} preloaded + {sent:,} sent = {received:,} received + {left:,} left"
    doubts = [
        f"{count:,} {what} whose effect is not known"
        for count, what in ((doubtful_sends, "sends"), (doubtful_takes, "receives"))
        if count
    ]
    doubts += ["queues that were deleted"] * emptied
    sentence = f"no message was lost or doubled: {balance}"
    if missing:
        amount = f"{abs(missing):,} message{'s' * (abs(missing) > 1)} {'missing' if missing > 0 else 'too many'}"
        reason = "nothing explains it"
        if doubts:
            reason = f"{' and '.join(doubts)} {'can' if explained else 'cannot'} explain it"
        sentence = f"{amount}, and {reason}: {balance.replace('=', 'against')}"
    return Check("messages", explained, f"{preloaded + sent:,} messages", f"{received + left:,} messages", sentence)


def _moved(rows: Rows, operations: Collection[str], brokers: bool) -> tuple[int, int, int]:
    """Messages moved for certain, requests whose effect is not known, and the most that these may have moved.

    What a request without an answer moved nobody has told: at most as much as the largest that was answered, we say.
    """
    tier = rows.client
    meant = rows.with_operation(tier, operations)
    counts = tier.messages[meant & rows.with_outcome(tier, {"ok"})]
    left = (tier.request > 0) | (not brokers)  # what never left for a broker has had no effect
    doubtful = int(np.count_nonzero(meant & left & rows.with_outcome(tier, UNCERTAIN)))
    return int(counts.sum()), doubtful, doubtful * int(counts.max(initial=1))


# Who was measured: the system, or the generator


def _generator(rows: Rows, summary: Summary, known: Known) -> Check:
    bound = max(LATE_MS, LATE_SHARE * (summary.overall.mean_ms or 0.0))
    problems = []
    for node, worker in known.workers.items():
        if worker.cpu_share + worker.starved_share >= BUSY:
            waited = f" and waited for one {worker.starved_share:.0%} of the time"
            problems.append(f"{node} used {worker.cpu_share:.0%} of a core{waited * (worker.starved_share > 0)}")
        if known.rates and worker.late_ms.mean > bound:
            problems.append(f"{node} started its steps {worker.late_ms.mean:.1f} ms late on average")
    problems += _behind(rows, summary.window, known.rates)
    busiest = max((worker.cpu_share + worker.starved_share for worker in known.workers.values()), default=0.0)
    found = "; ".join(problems) or f"{busiest:.0%} of a core"
    sentence = f"the load generator kept up: its busiest process used, or waited for, {busiest:.0%} of a core"
    if problems:
        less = "a lower rate" if known.rates else "fewer clients"
        sentence = (
            f"the load generator was saturated, so the figures may be its own: {found}; "
            f"use more load_processes, more client hosts or {less}"
        )
    return Check("generator", not problems, f"below {BUSY:.0%} of a core, starts on time", found, sentence)


def _behind(rows: Rows, window: Window, rates: Mapping[str, float]) -> list[str]:
    """Which groups were offered less than asked.

    Only the first request of a step bears the step's intended start; those after it are intended when they start.
    """
    tier = rows.client
    steps = window.holds(tier.intended) & (tier.intended != tier.start)
    per_client = np.bincount(tier.client[steps], minlength=len(rows.clients))
    offered: Counter[str] = Counter()
    for name, count in zip(rows.clients, per_client, strict=True):
        offered[name.rpartition("-")[0]] += int(count)
    problems = []
    for group, rate in rates.items():
        asked = rate * window.seconds
        if offered[group] < min(OFFERED_SHARE * asked, asked - OFFERED_DEVIATIONS * asked**0.5):
            started = offered[group] / window.seconds
            problems.append(f"{group} started {started:,.1f} steps per second where {rate:,.1f} were asked for")
    return problems


def _littles_law(summary: Summary, loop: ClosedLoop) -> Check:
    parts = [part.figures for part in summary.parts]
    law = littles_law([Flow(part.throughput_per_s, (part.mean_ms or 0.0) / 1000) for part in parts], loop)
    expected, measured = (f"{clients:,.1f} clients" for clients in (loop.clients, law.measured))
    return Check("littles law", law.ok, expected, measured, law.detail, advisory=True)
