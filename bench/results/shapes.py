"""Shapes of curves, runs and designs: each examines the evidence, describes what was measured, and says whether it has
the shape that the function is named after.

Differences of less than a fifth count as none: short runs on a shared machine are not more precise.
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
SATURATED = 0.95
"""Share of the peak from which a curve counts as saturated."""
BROKEN_DOWN = 0.8
"""Share of the peak below which throughput has broken down."""


@dataclass(frozen=True)
class Finding:
    """What was measured, and whether it has the shape; None: it was not measured."""

    detail: str
    same: bool | None


Shape = Callable[[Evidence], Finding]
NOT_MEASURED = Finding("not measured", None)


def number(value: float) -> str:
    """A number with three significant digits, and separated thousands."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def level_text(level: Any) -> str:
    """A level as people write it."""
    return f"{level:g}" if isinstance(level, float) else str(level)


def _metric_name(metric: str, requests: Requests) -> str:
    name = NAMES[metric][0]
    return f"{name} of {requests}" if str(requests) else name


def _curve_text(curve: Sequence[tuple[Any, float]], metric: str, factor: str, requests: Requests) -> str:
    figures = ", ".join(number(value) for _, value in curve)
    levels = ", ".join(level_text(level) for level, _ in curve)
    return f"{_metric_name(metric, requests)} {figures}{NAMES[metric][1]} with {factor} {levels}"


def _change(
    metric: str, factor: str, requests: Requests, fixed: dict[str, Any], judge: Callable[[list[float]], bool],
    between: tuple[Any, Any] | None = None,
) -> Shape:  # fmt: skip
    def examine(evidence: Evidence) -> Finding:
        curve = evidence.curve(metric, factor, requests, **fixed)
        if between is not None:
            curve = [(level, value) for level, value in curve if between[0] <= level <= between[1]]
        if len(curve) < 2:
            return NOT_MEASURED
        levels = "".join(f", {name} {level_text(level)}" for name, level in fixed.items())
        ratio = f" (× {number(curve[-1][1] / curve[0][1])})" if curve[0][1] else ""
        return Finding(
            _curve_text(curve, metric, factor, requests) + levels + ratio, judge([value for _, value in curve])
        )

    return examine


def rises(
    metric: str, factor: str, requests: Requests = EVERY, between: tuple[Any, Any] | None = None, **fixed: Any
) -> Shape:
    """More at the last level than at the first."""
    return _change(metric, factor, requests, fixed, lambda values: values[-1] > SAME * values[0], between)


def falls(
    metric: str, factor: str, requests: Requests = EVERY, between: tuple[Any, Any] | None = None, **fixed: Any
) -> Shape:
    """Less at the last level than at the first."""
    return _change(metric, factor, requests, fixed, lambda values: values[-1] < values[0] / SAME, between)


def stays(
    metric: str, factor: str, requests: Requests = EVERY, between: tuple[Any, Any] | None = None, **fixed: Any
) -> Shape:
    """The same at all levels."""
    return _change(metric, factor, requests, fixed, lambda values: max(values) <= SAME * min(values), between)


def best_within(metric: str, factor: str, requests: Requests = EVERY) -> Shape:
    """The least lies at neither end."""
    return _change(metric, factor, requests, {}, lambda values: 0 < values.index(min(values)) < len(values) - 1)


def straight(metric: str, factor: str, requests: Requests = EVERY) -> Shape:
    """Close to a straight line that rises: it explains 95 % of the variation."""

    def examine(evidence: Evidence) -> Finding:
        curve = evidence.curve(metric, factor, requests)
        if len(curve) < 3:
            return NOT_MEASURED
        x, y = (np.array(values, dtype=float) for values in zip(*curve, strict=True))
        explained = float(np.corrcoef(x, y)[0, 1] ** 2)
        detail = f"{_curve_text(curve, metric, factor, requests)}; a straight line explains {100 * explained:.1f} %"
        return Finding(detail, explained >= 0.95 and curve[-1][1] > SAME * curve[0][1])

    return examine


def saturates(factor: str, upto: float | None = None) -> Shape:
    """Throughput rises and then stays within 5 % of its peak, from the level `upto` at the latest."""

    def examine(evidence: Evidence) -> Finding:
        curve = evidence.curve("throughput", factor)
        if len(curve) < 3:
            return NOT_MEASURED
        peak = max(value for _, value in curve)
        knee, at_knee = next((level, value) for level, value in curve if value >= SATURATED * peak)
        detail = (
            f"{_curve_text(curve, 'throughput', factor, EVERY)}: within 5 % of the peak from {level_text(knee)} on"
            if knee != curve[-1][0]
            else f"{_curve_text(curve, 'throughput', factor, EVERY)}: still growing at the last level"
        )
        before_end = knee != curve[-1][0] and (upto is None or knee <= upto)
        return Finding(detail, before_end and (knee == curve[0][0] or at_knee > curve[0][1]))

    return examine


def in_order(metric: str, factor: str, levels: Sequence[str], **fixed: Any) -> Shape:
    """The metric falls from one of these levels to the next."""

    def examine(evidence: Evidence) -> Finding:
        values = {level_text(level): value for level, value in evidence.curve(metric, factor, EVERY, **fixed)}
        if any(level not in values for level in levels):
            return NOT_MEASURED
        detail = ", ".join(f"{level} {number(values[level])}{NAMES[metric][1]}" for level in levels)
        return Finding(detail, all(values[a] > values[b] for a, b in pairwise(levels)))

    return examine


def strongest(metric: str, effect: str) -> Shape:
    """This effect explains most of the variation in a 2k design."""

    def examine(evidence: Evidence) -> Finding:
        effects = evidence.effects(metric)
        if not effects:
            return NOT_MEASURED
        shares = ", ".join(f"{row['effect']} {row['variation_percent']:.0f} %" for row in effects[:3])
        return Finding(f"of the variation of {NAMES[metric][0]}: {shares}", effects[0]["effect"] == effect)

    return examine


def weak(metric: str, effect: str, percent: float) -> Shape:
    """This effect explains less than `percent` of the variation."""

    def examine(evidence: Evidence) -> Finding:
        share = next((row["variation_percent"] for row in evidence.effects(metric) if row["effect"] == effect), None)
        if share is None:
            return NOT_MEASURED
        return Finding(f"{effect} explains {share:.1f} % of the variation of {NAMES[metric][0]}", share < percent)

    return examine


def steady(requests: Requests = EVERY, metrics: Sequence[str] = ("throughput", "mean_ms")) -> Shape:
    """In every run, the last third of the measured time equals the first."""

    def examine(evidence: Evidence) -> Finding:
        ratios = {metric: _last_to_first(evidence, requests, metric) for metric in metrics}
        if not all(ratios.values()):
            return NOT_MEASURED
        changes = ", ".join(f"{_metric_name(metric, requests)} {_range(values)}" for metric, values in ratios.items())
        is_steady = all(1 / SAME <= ratio <= SAME for values in ratios.values() for ratio in values)
        return Finding(f"last third of the run against the first: {changes}", is_steady)

    return examine


def slower_with_backlog(requests: Requests) -> Shape:
    """Response time grows over a run in which the stored messages grow."""

    def examine(evidence: Evidence) -> Finding:
        ratios = _last_to_first(evidence, requests, "mean_ms")
        stored = [counts for run in evidence.runs if (counts := evidence.stored(run)) is not None]
        if not ratios or not stored:
            return NOT_MEASURED
        before, after = max(stored, key=lambda counts: counts[1] - counts[0])
        detail = (
            f"{_metric_name('mean_ms', requests)} in the last third of the run against the first: {_range(ratios)},"
            f" while {number(before)} stored messages became {number(after)}"
        )
        return Finding(detail, max(ratios) > SAME)

    return examine


def _last_to_first(evidence: Evidence, requests: Requests, metric: str) -> list[float]:
    """The ratio of the last third to the first, for each run."""
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

    def examine(evidence: Evidence) -> Finding:
        value, other = (evidence.over(evidence.runs, metric, kind) for kind in (requests, than))
        if value is None or other is None:
            return NOT_MEASURED
        detail = f"{NAMES[metric][0]}: {requests} {number(value)} ms, {than} {number(other)} ms"
        return Finding(detail, value > other)

    return examine


def as_many(requests: Requests, and_as: Requests) -> Shape:
    """Two kinds of request are answered equally often."""

    def examine(evidence: Evidence) -> Finding:
        rate, other = (evidence.over(evidence.runs, "throughput", kind) for kind in (requests, and_as))
        if not rate or not other:
            return NOT_MEASURED
        same = max(rate, other) <= SAME * min(rate, other)
        return Finding(f"{requests} {number(rate)}/s, {and_as} {number(other)}/s", same)

    return examine


def grows_alone(phase: str, factor: str) -> Shape:
    """From the first level of a factor to the last, in milliseconds, no other phase grows half as much as this one."""

    def examine(evidence: Evidence) -> Finding:
        levels = evidence.levels(factor)
        ends = [[run for run in evidence.runs if run.levels[factor] == level] for level in (levels[0], levels[-1])]
        phases = {name: [evidence.phase(runs, name) for runs in ends] for name in PHASES}
        growth = {name: b - a for name, (a, b) in phases.items() if a is not None and b is not None}
        if phase not in growth:
            return NOT_MEASURED
        changes = ", ".join(f"{PHASES[name]} {number(a or 0)} → {number(b or 0)} ms" for name, (a, b) in phases.items())
        alone = all(other < growth[phase] / 2 for name, other in growth.items() if name != phase)
        return Finding(f"from {factor} {levels[0]} to {levels[-1]}: {changes}", alone)

    return examine


def takes_most(phase: str) -> Shape:
    """Of a request's phases this one takes longest."""

    def examine(evidence: Evidence) -> Finding:
        phases = {name: ms for name in PHASES if (ms := evidence.phase(evidence.runs, name)) is not None}
        total_ms = evidence.phase(evidence.runs, "client_ms")
        if phase not in phases or not total_ms:
            return NOT_MEASURED
        times = ", ".join(
            f"{PHASES[name]} {number(ms)} ms ({100 * ms / total_ms:.0f} %)" for name, ms in phases.items()
        )
        return Finding(f"of {number(total_ms)} ms: {times}", phase == max(phases, key=phases.__getitem__))

    return examine


def mostly_below(limit_ms: float, share: float) -> Shape:
    """At least this share of all requests is answered within a limit."""

    def examine(evidence: Evidence) -> Finding:
        measured = evidence.share_below(limit_ms)
        if measured is None:
            return NOT_MEASURED
        return Finding(f"{100 * measured:.2f} % below {limit_ms:g} ms", measured >= share)

    return examine


def all_seen() -> Shape:
    """Every request that a client sent is in a broker's trace, and no other."""

    def examine(evidence: Evidence) -> Finding:
        rows = [row for run in evidence.runs for row in evidence.tables["joins"].to_pylist() if row["run"] == run.run]
        if not rows:
            return NOT_MEASURED
        alone = sum(row["client_only"] + row["broker_only"] for row in rows)
        both = sum(row["joined"] for row in rows)
        return Finding(f"{both:,} requests in both tiers, {alone:,} in one alone", alone == 0 and both > 0)

    return examine


def as_offered(group: str) -> Shape:
    """In an open loop, the answered rate is the offered one, within 3 %."""

    def examine(evidence: Evidence) -> Finding:
        pairs = []
        for _, runs in evidence.points():
            offered = runs[0].details["settings"]["clients"][group]["rate"]
            answered = evidence.over(runs, "throughput")
            pairs.append((float(offered), answered or 0.0))
        rates = ", ".join(f"{number(answered)} of {number(offered)}/s" for offered, answered in pairs)
        return Finding(f"answered {rates}", all(abs(answered / offered - 1) <= 0.03 for offered, answered in pairs))

    return examine


def times_more_than(other: str, least: float) -> Shape:
    """The best throughput is at least so many times that of another experiment."""

    def examine(evidence: Evidence) -> Finding:
        best = _peak(evidence)
        other_best = _peak(evidence.experiments[other]) if other in evidence.experiments else None
        if not best or not other_best:
            return NOT_MEASURED
        detail = f"{number(best)}/s at most, × {best / other_best:.1f} of the {number(other_best)}/s of {other}"
        return Finding(detail, best / other_best >= least)

    return examine


def _peak(evidence: Evidence) -> float | None:
    values = [value for _, runs in evidence.points() if (value := evidence.over(runs, "throughput")) is not None]
    return max(values, default=None)


def ramp_saturates(group: str, clients: tuple[int, int]) -> Shape:
    """With ever more clients, throughput comes within 5 % of its peak at a number of clients in this range."""

    def examine(evidence: Evidence) -> Finding:
        steps = _ramp(evidence, group)
        if len(steps) < 3:
            return NOT_MEASURED
        peak = max(value for _, value in steps)
        knee = next(count for count, value in steps if value >= SATURATED * peak)
        return Finding(
            f"peak {number(peak)}/s; within 5 % of it from {knee} clients on", clients[0] <= knee <= clients[1]
        )

    return examine


def breaks_down(group: str) -> Shape:
    """With ever more clients, throughput falls to less than four fifths of its peak."""
    return _at_the_end(group, lambda share: share < BROKEN_DOWN)


def holds_up(group: str) -> Shape:
    """With ever more clients, throughput stays above four fifths of its peak."""
    return _at_the_end(group, lambda share: share >= BROKEN_DOWN)


def _at_the_end(group: str, judge: Callable[[float], bool]) -> Shape:
    def examine(evidence: Evidence) -> Finding:
        steps = _ramp(evidence, group)
        if len(steps) < 3:
            return NOT_MEASURED
        peak, (last, end) = max(value for _, value in steps), steps[-1]
        detail = f"peak {number(peak)}/s, {number(end)}/s with all {last} clients ({100 * end / peak:.0f} %)"
        return Finding(detail, judge(end / peak))

    return examine


def _ramp(evidence: Evidence, group: str) -> list[tuple[int, float]]:
    """Throughput at each number of clients; a step is as long as the ramp's, but at least five windows."""
    run = evidence.runs[0]
    settings = run.details["settings"]["clients"][group]
    ramp, most = settings["ramp"], int(settings["count"])
    steps: dict[int, list[float]] = {}
    for row in evidence.windows(run, measured=False):
        steps.setdefault(int(row["second"] // max(5.0, ramp["every"])), []).append(row["throughput_per_s"])
    points = []
    for step, values in sorted(steps.items()):
        middle = (step + 0.5) * max(5.0, ramp["every"])
        count = min(most, ramp["clients"] * (1 + int(middle // ramp["every"])))
        points.append((count, fmean(values)))
    return points[:-1]


def mean_within(low_ms: float, high_ms: float, metric: str = "mean_ms", requests: Requests = EVERY) -> Shape:
    """The metric lies in this range."""

    def examine(evidence: Evidence) -> Finding:
        mean = evidence.over(evidence.runs, metric, requests)
        if mean is None:
            return NOT_MEASURED
        return Finding(f"{_metric_name(metric, requests)} {number(mean)} ms", low_ms <= mean <= high_ms)

    return examine
