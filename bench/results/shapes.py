"""Shapes that a curve, a course or a design can have: each looks at the evidence, says in a sentence what it saw, and
whether that is the shape it is named after.

What differs by less than a fifth counts as the same: short runs on a shared machine do not tell finer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from bench.results.evidence import EVERY, METRICS, Evidence, Requests

SAME = 1.2
NAMES = {
    "throughput": ("throughput", "/s"),
    "mean_ms": ("mean response time", " ms"),
    "p50_ms": ("median response time", " ms"),
    "p99_ms": ("p99 of the response time", " ms"),
    "stddev_ms": ("standard deviation", " ms"),
}
PHASES = {
    "queue_ms": "the wait for a database connection",
    "database_ms": "the call of the database",
    "unexplained_ms": "the way between the tiers",
}
FULL = 0.95
"""Of the peak: from here on a curve counts as saturated."""
KEPT = 0.8
"""Of the peak: below this, it broke down."""


@dataclass(frozen=True)
class Finding:
    """What was seen, and whether it has the shape; None: it could not be seen."""

    sentence: str
    same: bool | None


Shape = Callable[[Evidence], Finding]
NOTHING = Finding("not measured", None)


def number(value: float) -> str:
    """A figure with three digits that count, and thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def level_text(level: Any) -> str:
    """A level as people write it."""
    return f"{level:g}" if isinstance(level, float) else str(level)


def _named(metric: str, requests: Requests) -> str:
    name = NAMES[metric][0]
    return f"{name} of {requests}" if str(requests) else name


def _course(curve: Sequence[tuple[Any, float]], metric: str, factor: str, requests: Requests) -> str:
    figures = ", ".join(number(value) for _, value in curve)
    levels = ", ".join(level_text(level) for level, _ in curve)
    return f"{_named(metric, requests)} {figures}{NAMES[metric][1]} with {factor} {levels}"


def _change(
    metric: str, factor: str, requests: Requests, held: dict[str, Any], judge: Callable[[list[float]], bool],
    between: tuple[Any, Any] | None = None,
) -> Shape:  # fmt: skip
    def look(evidence: Evidence) -> Finding:
        curve = evidence.curve(metric, factor, requests, **held)
        if between is not None:
            curve = [(level, value) for level, value in curve if between[0] <= level <= between[1]]
        if len(curve) < 2:
            return NOTHING
        at = "".join(f", {name} {level_text(level)}" for name, level in held.items())
        ratio = f" (× {number(curve[-1][1] / curve[0][1])})" if curve[0][1] else ""
        return Finding(_course(curve, metric, factor, requests) + at + ratio, judge([value for _, value in curve]))

    return look


def rises(
    metric: str, factor: str, requests: Requests = EVERY, between: tuple[Any, Any] | None = None, **held: Any
) -> Shape:
    """More at the last level than at the first."""
    return _change(metric, factor, requests, held, lambda values: values[-1] > SAME * values[0], between)


def falls(
    metric: str, factor: str, requests: Requests = EVERY, between: tuple[Any, Any] | None = None, **held: Any
) -> Shape:
    """Less at the last level than at the first."""
    return _change(metric, factor, requests, held, lambda values: values[-1] < values[0] / SAME, between)


def stays(
    metric: str, factor: str, requests: Requests = EVERY, between: tuple[Any, Any] | None = None, **held: Any
) -> Shape:
    """The same at all levels."""
    return _change(metric, factor, requests, held, lambda values: max(values) <= SAME * min(values), between)


def best_within(metric: str, factor: str, requests: Requests = EVERY) -> Shape:
    """The least lies at neither end."""
    return _change(metric, factor, requests, {}, lambda values: 0 < values.index(min(values)) < len(values) - 1)


def straight(metric: str, factor: str, requests: Requests = EVERY) -> Shape:
    """Close to a straight line that rises: it explains 95 % of the variation."""

    def look(evidence: Evidence) -> Finding:
        curve = evidence.curve(metric, factor, requests)
        if len(curve) < 3:
            return NOTHING
        x, y = (np.array(values, dtype=float) for values in zip(*curve, strict=True))
        explained = float(np.corrcoef(x, y)[0, 1] ** 2)
        sentence = f"{_course(curve, metric, factor, requests)}; a straight line explains {100 * explained:.1f} %"
        return Finding(sentence, explained >= 0.95 and curve[-1][1] > SAME * curve[0][1])

    return look


def saturates(factor: str, upto: float | None = None) -> Shape:
    """Throughput rises and then stays within a twentieth of its peak; by the given level, if there is one."""

    def look(evidence: Evidence) -> Finding:
        curve = evidence.curve("throughput", factor)
        if len(curve) < 3:
            return NOTHING
        peak = max(value for _, value in curve)
        knee, at_knee = next((level, value) for level, value in curve if value >= FULL * peak)
        sentence = (
            f"{_course(curve, 'throughput', factor, EVERY)}: within 5 % of the peak from {level_text(knee)} on"
            if knee != curve[-1][0]
            else f"{_course(curve, 'throughput', factor, EVERY)}: still growing at the last level"
        )
        before_end = knee != curve[-1][0] and (upto is None or knee <= upto)
        return Finding(sentence, before_end and (knee == curve[0][0] or at_knee > curve[0][1]))

    return look


def in_order(metric: str, factor: str, levels: Sequence[str], **held: Any) -> Shape:
    """The metric falls from one of these levels to the next."""

    def look(evidence: Evidence) -> Finding:
        found = {level_text(level): value for level, value in evidence.curve(metric, factor, EVERY, **held)}
        if any(level not in found for level in levels):
            return NOTHING
        told = ", ".join(f"{level} {number(found[level])}{NAMES[metric][1]}" for level in levels)
        return Finding(told, all(found[a] > found[b] for a, b in pairwise(levels)))

    return look


def strongest(metric: str, effect: str) -> Shape:
    """This effect explains most of the variation in a 2k design."""

    def look(evidence: Evidence) -> Finding:
        effects = evidence.effects(metric)
        if not effects:
            return NOTHING
        told = ", ".join(f"{row['effect']} {row['variation_percent']:.0f} %" for row in effects[:3])
        return Finding(f"of the variation of {NAMES[metric][0]}: {told}", effects[0]["effect"] == effect)

    return look


def weak(metric: str, effect: str, percent: float) -> Shape:
    """This effect explains less than so much of the variation."""

    def look(evidence: Evidence) -> Finding:
        share = next((row["variation_percent"] for row in evidence.effects(metric) if row["effect"] == effect), None)
        if share is None:
            return NOTHING
        return Finding(f"{effect} explains {share:.1f} % of the variation of {NAMES[metric][0]}", share < percent)

    return look


def steady(requests: Requests = EVERY, metrics: Sequence[str] = ("throughput", "mean_ms")) -> Shape:
    """In every run, the last third of the measured time is like the first."""

    def look(evidence: Evidence) -> Finding:
        ratios = {metric: _last_to_first(evidence, requests, metric) for metric in metrics}
        if not all(ratios.values()):
            return NOTHING
        told = ", ".join(f"{_named(metric, requests)} {_range(found)}" for metric, found in ratios.items())
        level = all(1 / SAME <= ratio <= SAME for found in ratios.values() for ratio in found)
        return Finding(f"last third of the run against the first: {told}", level)

    return look


def slower_with_backlog(requests: Requests) -> Shape:
    """Response time grows over a run in which the stored messages grow."""

    def look(evidence: Evidence) -> Finding:
        ratios = _last_to_first(evidence, requests, "mean_ms")
        stored = [found for run in evidence.runs if (found := evidence.stored(run)) is not None]
        if not ratios or not stored:
            return NOTHING
        before, after = max(stored, key=lambda found: found[1] - found[0])
        sentence = (
            f"{_named('mean_ms', requests)} in the last third of the run against the first: {_range(ratios)},"
            f" while {number(before)} stored messages became {number(after)}"
        )
        return Finding(sentence, max(ratios) > SAME)

    return look


def _last_to_first(evidence: Evidence, requests: Requests, metric: str) -> list[float]:
    """Of each run, its last third against its first."""
    column = METRICS.get(metric, metric)
    ratios = []
    for run in evidence.runs:
        values = [row[column] for row in evidence.windows(run, requests) if row[column] is not None]
        third = len(values) // 3
        if third and fmean(values[:third]):
            ratios.append(fmean(values[-third:]) / fmean(values[:third]))
    return ratios


def _range(ratios: Sequence[float]) -> str:
    if len(ratios) == 1:
        return f"× {ratios[0]:.2f}"
    return f"× {min(ratios):.2f} to × {max(ratios):.2f} over {len(ratios)} runs"


def slower(requests: Requests, than: Requests, metric: str = "mean_ms") -> Shape:
    """One kind of request takes longer than another."""

    def look(evidence: Evidence) -> Finding:
        one, other = (evidence.over(evidence.runs, metric, kind) for kind in (requests, than))
        if one is None or other is None:
            return NOTHING
        sentence = f"{NAMES[metric][0]}: {requests} {number(one)} ms, {than} {number(other)} ms"
        return Finding(sentence, one > other)

    return look


def as_many(requests: Requests, and_as: Requests) -> Shape:
    """Two kinds of request are answered equally often."""

    def look(evidence: Evidence) -> Finding:
        one, other = (evidence.over(evidence.runs, "throughput", kind) for kind in (requests, and_as))
        if not one or not other:
            return NOTHING
        same = max(one, other) <= SAME * min(one, other)
        return Finding(f"{requests} {number(one)}/s, {and_as} {number(other)}/s", same)

    return look


def grows_alone(phase: str, factor: str) -> Shape:
    """From the first level of a factor to the last, in milliseconds, no other phase grows half as much as this one."""

    def look(evidence: Evidence) -> Finding:
        levels = evidence.levels(factor)
        ends = [[run for run in evidence.runs if run.levels[factor] == level] for level in (levels[0], levels[-1])]
        phases = {name: [evidence.phase(runs, name) for runs in ends] for name in PHASES}
        grown = {name: b - a for name, (a, b) in phases.items() if a is not None and b is not None}
        if phase not in grown:
            return NOTHING
        told = ", ".join(f"{PHASES[name]} {number(a or 0)} → {number(b or 0)} ms" for name, (a, b) in phases.items())
        alone = all(more < grown[phase] / 2 for name, more in grown.items() if name != phase)
        return Finding(f"from {factor} {levels[0]} to {levels[-1]}: {told}", alone)

    return look


def takes_most(phase: str) -> Shape:
    """Of a request's phases this one takes longest."""

    def look(evidence: Evidence) -> Finding:
        phases = {name: found for name in PHASES if (found := evidence.phase(evidence.runs, name)) is not None}
        whole = evidence.phase(evidence.runs, "client_ms")
        if phase not in phases or not whole:
            return NOTHING
        told = ", ".join(f"{PHASES[name]} {number(ms)} ms ({100 * ms / whole:.0f} %)" for name, ms in phases.items())
        return Finding(f"of {number(whole)} ms: {told}", phase == max(phases, key=phases.__getitem__))

    return look


def mostly_below(limit_ms: float, share: float) -> Shape:
    """At least this share of all requests is answered within a limit."""

    def look(evidence: Evidence) -> Finding:
        found = evidence.share_below(limit_ms)
        return NOTHING if found is None else Finding(f"{100 * found:.2f} % below {limit_ms:g} ms", found >= share)

    return look


def all_seen() -> Shape:
    """Every request that a client sent is in a broker's trace, and no other."""

    def look(evidence: Evidence) -> Finding:
        rows = [row for run in evidence.runs for row in evidence.tables["joins"].to_pylist() if row["run"] == run.run]
        if not rows:
            return NOTHING
        alone = sum(row["client_only"] + row["broker_only"] for row in rows)
        both = sum(row["joined"] for row in rows)
        return Finding(f"{both:,} requests in both tiers, {alone:,} in one alone", alone == 0 and both > 0)

    return look


def as_offered(group: str) -> Shape:
    """In an open loop, as much is answered as was asked for, within 3 %."""

    def look(evidence: Evidence) -> Finding:
        pairs = []
        for _, runs in evidence.points():
            offered = runs[0].more["settings"]["clients"][group]["rate"]
            answered = evidence.over(runs, "throughput")
            pairs.append((float(offered), answered or 0.0))
        told = ", ".join(f"{number(answered)} of {number(offered)}/s" for offered, answered in pairs)
        return Finding(f"answered {told}", all(abs(answered / offered - 1) <= 0.03 for offered, answered in pairs))

    return look


def times_more_than(other: str, least: float) -> Shape:
    """The best throughput is at least so many times that of another experiment."""

    def look(evidence: Evidence) -> Finding:
        best = _peak(evidence)
        beside = _peak(evidence.others[other]) if other in evidence.others else None
        if not best or not beside:
            return NOTHING
        sentence = f"{number(best)}/s at most, × {best / beside:.1f} of the {number(beside)}/s of {other}"
        return Finding(sentence, best / beside >= least)

    return look


def _peak(evidence: Evidence) -> float | None:
    values = [value for _, runs in evidence.points() if (value := evidence.over(runs, "throughput")) is not None]
    return max(values, default=None)


def ramp_saturates(group: str, clients: tuple[int, int]) -> Shape:
    """With ever more clients, throughput comes within a twentieth of its peak at a number of them in this range."""

    def look(evidence: Evidence) -> Finding:
        steps = _ramp(evidence, group)
        if len(steps) < 3:
            return NOTHING
        peak = max(value for _, value in steps)
        at = next(number_of for number_of, value in steps if value >= FULL * peak)
        return Finding(f"peak {number(peak)}/s; within 5 % of it from {at} clients on", clients[0] <= at <= clients[1])

    return look


def breaks_down(group: str) -> Shape:
    """With ever more clients, throughput falls to less than four fifths of its peak."""
    return _at_the_end(group, lambda kept: kept < KEPT)


def holds_up(group: str) -> Shape:
    """With ever more clients, it does not."""
    return _at_the_end(group, lambda kept: kept >= KEPT)


def _at_the_end(group: str, judge: Callable[[float], bool]) -> Shape:
    def look(evidence: Evidence) -> Finding:
        steps = _ramp(evidence, group)
        if len(steps) < 3:
            return NOTHING
        peak, (last, end) = max(value for _, value in steps), steps[-1]
        sentence = f"peak {number(peak)}/s, {number(end)}/s with all {last} clients ({100 * end / peak:.0f} %)"
        return Finding(sentence, judge(end / peak))

    return look


def _ramp(evidence: Evidence, group: str) -> list[tuple[int, float]]:
    """Throughput at each number of clients; a step is as long as the ramp's, but at least five windows."""
    run = evidence.runs[0]
    settings = run.more["settings"]["clients"][group]
    ramp, most = settings["ramp"], int(settings["count"])
    steps: dict[int, list[float]] = {}
    for row in evidence.windows(run, measured=False):
        steps.setdefault(int(row["second"] // max(5.0, ramp["every"])), []).append(row["throughput_per_s"])
    found = []
    for step, values in sorted(steps.items()):
        middle = (step + 0.5) * max(5.0, ramp["every"])
        there = min(most, ramp["clients"] * (1 + int(middle // ramp["every"])))
        found.append((there, fmean(values)))
    return found[:-1]


def mean_within(low_ms: float, high_ms: float, metric: str = "mean_ms", requests: Requests = EVERY) -> Shape:
    """The metric lies in this range."""

    def look(evidence: Evidence) -> Finding:
        found = evidence.over(evidence.runs, metric, requests)
        return NOTHING if found is None else Finding(
            f"{_named(metric, requests)} {number(found)} ms", low_ms <= found <= high_ms
        )  # fmt: skip

    return look
