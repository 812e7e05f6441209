"""From a run's trace rows to its summary, over its measured window.

A row belongs to the window by its intended start, and its response time counts from there; throughput counts what was
answered within the window. Percentiles are by the rule of `runs.percentiles`, means and deviations are those of
`runs.moments`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stafette.lab.running.trace_rows import Integers, Mask, Rows
from stafette.runs.moments import mean_ms, stddev_ms, sums
from stafette.runs.outcomes import RECEIVING, SENDING, SUCCESSES
from stafette.runs.percentiles import milliseconds, percentiles
from stafette.runs.summary import Figures, Part, PerSecond, Summary
from stafette.runs.window import SECOND, Window

_PERCENTILES = (500, 900, 950, 990, 999)
_MILLISECOND = 1e6


def summarise(rows: Rows, window: Window) -> Summary:
    """Summarise the client tier within a window."""
    tier = rows.client
    starts_inside, ends_inside = window.holds(tier.intended), window.holds(tier.end)
    is_success = rows.with_outcome(tier, SUCCESSES)
    is_ok = ends_inside & rows.with_outcome(tier, {"ok"})
    measured = starts_inside & is_success
    requests, successes = int(np.count_nonzero(starts_inside)), int(np.count_nonzero(measured))
    answers = int(np.count_nonzero(ends_inside & is_success))
    overall = _figures(tier.end[measured] - tier.intended[measured], answers, window)
    sent = tier.messages[is_ok & rows.with_operation(tier, SENDING)].sum()
    received = tier.messages[is_ok & rows.with_operation(tier, RECEIVING)].sum()
    return Summary(
        window=window,
        overall=overall,
        parts=_parts(rows, window, starts_inside, ends_inside),
        requests=requests,
        errors=requests - successes,
        error_share=(requests - successes) / requests if requests else 0.0,
        messages_sent_per_s=float(sent) / window.seconds,
        messages_received_per_s=float(received) / window.seconds,
        mean_in_flight=_mean_in_flight(tier.intended, tier.end, window),
    )


def per_second(rows: Rows, load: Window) -> PerSecond:
    """The run second by second, over the whole load; the rate of a shorter last second is divided by its length."""
    tier = rows.client
    seconds = -((load.start_ns - load.end_ns) // SECOND)
    lengths = np.ones(seconds)
    lengths[-1] = load.seconds - (seconds - 1)
    is_success = rows.with_outcome(tier, SUCCESSES)

    def second(moments: Integers) -> Integers:
        return (moments - load.start_ns) // SECOND

    answers = np.bincount(second(tier.end[is_success & load.holds(tier.end)]), minlength=seconds)
    starts_inside = load.holds(tier.intended)
    errors = np.bincount(second(tier.intended[starts_inside & ~is_success]), minlength=seconds)
    measured = starts_inside & is_success
    means: list[float | None] = []
    p99s: list[float | None] = []
    response = tier.end[measured] - tier.intended[measured]
    for values in _split(response, second(tier.intended[measured]), seconds):
        means.append(mean_ms(len(values), sums(values)[0]) if len(values) else None)
        p99s.append(milliseconds(percentiles(values, [990])[0]) if len(values) else None)
    return PerSecond(list(range(seconds)), (answers / lengths).tolist(), means, p99s, errors.tolist())


def _parts(rows: Rows, window: Window, starts_inside: Mask, ends_inside: Mask) -> list[Part]:
    tier = rows.client
    width, kinds = len(rows.outcomes), len(rows.operations) * len(rows.outcomes)
    kind = tier.operation * width + tier.outcome
    answers = np.bincount(kind[ends_inside], minlength=kinds)
    response = tier.end[starts_inside] - tier.intended[starts_inside]
    parts = [
        Part(rows.operations[code // width], rows.outcomes[code % width], _figures(values, int(answers[code]), window))
        for code, values in enumerate(_split(response, kind[starts_inside], kinds))
        if len(values) or answers[code]
    ]
    return sorted(parts, key=lambda part: (part.operation, part.outcome))


def _split(values: Integers, kinds: NDArray[Any], count: int) -> list[Integers]:
    """The values of each kind, in arrays that may be changed; kinds are numbered from 0."""
    small = kinds.astype(np.uint16) if count <= np.iinfo(np.uint16).max else kinds  # sorted by radix: ten times faster
    ordered = values[np.argsort(small, kind="stable")]
    return np.split(ordered, np.cumsum(np.bincount(kinds, minlength=count))[:-1])


def _figures(response: Integers, answers: int, window: Window) -> Figures:
    count, throughput = len(response), answers / window.seconds
    if not count:
        return Figures(0, throughput)
    total, squares = sums(response)
    by_rank = [*map(milliseconds, percentiles(response, _PERCENTILES)), int(response.max()) / _MILLISECOND]
    return Figures(count, throughput, mean_ms(count, total), stddev_ms(count, total, squares), *by_rank)


def _mean_in_flight(intended: Integers, end: Integers, window: Window) -> float:
    inside = np.minimum(end, window.end_ns) - np.maximum(intended, window.start_ns)
    return float(inside[inside > 0].sum()) / (window.end_ns - window.start_ns)
