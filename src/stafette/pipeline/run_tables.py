"""The tables of single runs, from Spark's aggregations: names for codes, milliseconds, rates and intervals.

Pure functions on small tables. Sums are whole numbers, so that means and deviations equal those of the laboratory
(`stafette.runs.moments`) to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stafette.pipeline.results import NETWORK, PHASES
from stafette.pipeline.run_times import RunTimes
from stafette.report import result_tables
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES
from stafette.runs.moments import mean_ms, stddev_ms
from stafette.runs.outcomes import ANSWERED, SUCCESSES
from stafette.runs.window import SECOND
from stafette.statistics import intervals

MICROSECONDS, NANOSECONDS = 1000, 1_000_000
"""In a millisecond."""
BATCHES = "batches"
"""The kind of an interval over batches of windows of one run."""

Integers = NDArray[np.int64]


class Group(NamedTuple):
    """The run, tier, operation and outcome of a row of a table."""

    run: str
    tier: str
    operation: str
    outcome: str


@dataclass(frozen=True)
class Names:
    """The names of codes."""

    runs: Mapping[int, str]
    codes: Mapping[int, tuple[str, str, str]]

    def group(self, run_code: int, code: int) -> Group:
        """The names of a group."""
        return Group(self.runs[run_code], *self.codes[code])


@dataclass(frozen=True)
class Series:
    """The windows of a group, in order of time and without gaps; counts are of requests that began in them."""

    number: Integers
    count: Integers
    total_ns: Integers
    longest_ns: Integers
    percentiles: Integers
    """In microseconds, a column for each of WINDOW_PERCENTILES."""
    answers: Integers
    measured_count: Integers
    measured_total_ns: Integers
    measured_answers: Integers


_COLUMNS = ("count", "total_ns", "longest_ns", "answers", "measured_count", "measured_total_ns", "measured_answers")


def series(aggregated: pa.Table, names: Names, spans: Mapping[str, RunTimes]) -> dict[Group, Series]:
    """The windows of each group without gaps, from those with requests."""
    order = [("run_code", "ascending"), ("code", "ascending"), ("window", "ascending")]
    ordered = aggregated.sort_by(order)
    run_codes, codes, window = (_numbers(ordered, name) for name in ("run_code", "code", "window"))
    columns = {name: _numbers(ordered, name) for name in (*_COLUMNS, *WINDOW_PERCENTILES)}
    starts = np.flatnonzero((np.diff(run_codes) != 0) | (np.diff(codes) != 0)) + 1
    groups: dict[Group, Series] = {}
    for rows in np.split(np.arange(len(codes)), starts) if len(codes) else []:
        group = names.group(int(run_codes[rows[0]]), int(codes[rows[0]]))
        dense = {name: np.zeros(spans[group.run].windows, dtype=np.int64) for name in columns}
        for name, column in columns.items():
            dense[name][window[rows]] = column[rows]
        groups[group] = Series(
            number=np.arange(spans[group.run].windows),
            percentiles=np.stack([dense[name] for name in WINDOW_PERCENTILES], axis=1),
            **{name: dense[name] for name in _COLUMNS},
        )
    return dict(sorted(groups.items()))


def windows(groups: Mapping[Group, Series], spans: Mapping[str, RunTimes]) -> pa.Table:
    """The windows of each group: all windows of successes, otherwise only those with requests."""
    column_sets = [_windows_of(group, rows, spans[group.run]) for group, rows in groups.items()]
    empty = result_tables.TABLES["windows"].empty_table()
    return pa.concat_tables([empty, *(result_tables.columns("windows", columns) for columns in column_sets)])


def _windows_of(group: Group, rows: Series, span: RunTimes) -> dict[str, Any]:
    mask = np.full(len(rows.number), group.outcome in (*SUCCESSES, ANSWERED)) | (rows.count > 0) | (rows.answers > 0)
    count, nonempty = rows.count[mask], rows.count[mask] > 0
    seconds = span.lengths()[mask] / SECOND
    return {name: [value] * len(count) for name, value in group._asdict().items()} | {
        "second": rows.number[mask] * span.window_ns / SECOND,
        "seconds": seconds,
        "count": count,
        "throughput_per_s": rows.answers[mask] / seconds,
        "mean_ms": _nullable(rows.total_ns[mask] / (np.maximum(count, 1) * NANOSECONDS), nonempty),
        "max_ms": _nullable(rows.longest_ns[mask] / NANOSECONDS, nonempty),
        "measured_count": rows.measured_count[mask],
        "measured_total_ms": rows.measured_total_ns[mask] / NANOSECONDS,
        "measured_answers": rows.measured_answers[mask],
        "measured_seconds": span.measured_lengths()[mask] / SECOND,
    } | {
        name: _nullable(rows.percentiles[mask, index] / MICROSECONDS, nonempty)
        for index, name in enumerate(WINDOW_PERCENTILES)
    }  # fmt: skip


def summary(
    metrics: Sequence[Mapping[str, Any]],
    groups: Mapping[Group, Series],
    names: Names,
    spans: Mapping[str, RunTimes],
    trends: Mapping[tuple[str, str], str],
    level: float,
) -> pa.Table:
    """The summary of each group with a begin or an end in the measured window.

    `trends` has the reason for each metric of a run that is not stationary.
    """
    by_group = {names.group(row["run_code"], row["code"]): row for row in metrics}
    answers = {group: int(rows.measured_answers.sum()) for group, rows in groups.items()}
    table = []
    for group in sorted(by_group.keys() | {group for group, count in answers.items() if count}):
        row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["summary"].names)
        row |= group._asdict() | {"count": 0, "bytes": 0, "messages": 0}
        row["throughput_per_s"] = answers.get(group, 0) / spans[group.run].measured.seconds
        if group in by_group:
            row |= moments(by_group[group]) | {name: by_group[group][name] for name in ("bytes", "messages")}
        if group in groups:
            row |= _intervals(group, groups[group], spans[group.run], trends, level)
        table.append(row)
    return result_tables.table("summary", table)


def moments(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Count, mean, deviation, percentiles and maximum from a row of `counts.metrics`."""
    count, total, squares = int(metrics["count"]), int(metrics["total_ns"]), int(metrics["squares"])
    return {
        "count": count,
        "mean_ms": mean_ms(count, total),
        "stddev_ms": stddev_ms(count, total, squares),
        "max_ms": metrics["longest_ns"] / NANOSECONDS,
    } | {name: metrics[name] / MICROSECONDS for name in PERCENTILES}


def _intervals(
    group: Group, rows: Series, span: RunTimes, trends: Mapping[tuple[str, str], str], level: float
) -> dict[str, Any]:
    """The intervals of mean and throughput over as many batches of windows, or the reason that there is none."""
    lengths = span.measured_lengths()
    inside = lengths > 0
    seconds = lengths[inside] / SECOND
    pairs = {
        "mean_ms": (rows.measured_total_ns[inside] / NANOSECONDS, rows.measured_count[inside].astype(np.float64)),
        "throughput": (rows.measured_answers[inside].astype(np.float64), seconds),
    }
    pairs = {metric: pair for metric, pair in pairs.items() if pair[1].sum() > 0}
    estimates = {metric: intervals.batch_ratio(*pair, level) for metric, pair in pairs.items()}
    reasons: dict[str, str] = {}
    while True:
        for metric, estimate in estimates.items():
            reason = trends.get((group.run, metric)) or estimate.reason
            if reason is not None:
                reasons[metric] = reason
        batches = {estimate.batches for metric, estimate in estimates.items() if metric not in reasons}
        if len(batches) <= 1:
            break
        estimates = {metric: intervals.batch_ratio(*pair, level, min(batches)) for metric, pair in pairs.items()}
    mean, rate = (
        estimates[metric].estimate if metric in estimates and metric not in reasons else None
        for metric in ("mean_ms", "throughput")
    )
    is_full = span.inside()[inside]
    rates = (rows.measured_answers[inside] / seconds)[is_full]
    return {
        "mean_low_ms": mean.low if mean else None,
        "mean_high_ms": mean.high if mean else None,
        "throughput_low": rate.low if rate else None,
        "throughput_high": rate.high if rate else None,
        "throughput_stddev": float(np.std(rates, ddof=1)) if len(rates) > 1 else None,
        "interval_kind": BATCHES if batches else None,
        "interval_level": level if batches else None,
        "interval_n": min(batches, default=None),
        "interval_reason": _reason(reasons),
    }


def _reason(reasons: Mapping[str, str]) -> str | None:
    if len(set(reasons.values())) == 1 and len(reasons) > 1:
        return next(iter(reasons.values()))
    words = {"mean_ms": "mean", "throughput": "throughput"}
    return "; ".join(f"{words[metric]}: {reason}" for metric, reason in reasons.items()) or None


def shares(metrics: Sequence[Mapping[str, Any]], names: Names, limits_us: Sequence[int]) -> pa.Table:
    """The share of response times below each limit."""
    rows = [
        names.group(row["run_code"], row["code"])._asdict()
        | {"limit_ms": limit / MICROSECONDS, "share": row[f"below_{number}"] / row["count"]}
        for row in metrics
        for number, limit in enumerate(limits_us)
    ]
    return _sorted_table("shares", rows, ("run", "tier", "operation", "outcome", "limit_ms"))


def distribution(bins: Sequence[Mapping[str, Any]], names: Names) -> pa.Table:
    """The number of response times in each bin: those of the clients or, without clients, of the other tiers."""
    group_rows = [(names.group(row["run_code"], row["code"]), row) for row in bins]
    with_clients = {group.run for group, _ in group_rows if group.tier == "client"}
    rows = [
        _client_columns(group)
        | {name: row[f"{name.removesuffix('_ms')}_us"] / MICROSECONDS for name in ("low_ms", "high_ms")}
        | {"count": row["count"]}
        for group, row in group_rows
        if group.tier == "client" or group.run not in with_clients
    ]
    return _sorted_table("distribution", rows, ("run", "operation", "outcome", "low_ms"))


def phases(metrics: Sequence[Mapping[str, Any]], names: Names) -> pa.Table:
    """The metrics of each phase."""
    rows = [
        _client_columns(names.group(row["run_code"], row["code"])) | {"phase": PHASES[row["phase"]]} | moments(row)
        for row in metrics
        if row["phase"] < len(PHASES)
    ]
    order = {phase: number for number, phase in enumerate(PHASES)}
    rows.sort(key=lambda row: (row["run"], row["operation"], row["outcome"], order[row["phase"]]))
    return result_tables.table("phases", rows)


def breakdown(metrics: Sequence[Mapping[str, Any]], names: Names) -> pa.Table:
    """The means of all phases of each operation and outcome, side by side."""
    by_group: dict[Group, dict[str, Any]] = {}
    empty = dict.fromkeys(result_tables.TABLES["breakdown"].names)
    for row in metrics:
        group = names.group(row["run_code"], row["code"])
        means = by_group.setdefault(group, empty | _client_columns(group))
        mean = mean_ms(int(row["count"]), int(row["total_ns"]))
        if row["phase"] == len(PHASES):
            means |= {"client_ms": mean, "count": row["count"]}
        else:
            phase = PHASES[row["phase"]]
            means["unexplained_ms" if phase == NETWORK else f"{phase}_ms"] = mean
    return _sorted_table("breakdown", list(by_group.values()), ("run", "operation", "outcome"))


def joins(by_window: Sequence[Mapping[str, Any]], names: Names) -> pa.Table:
    """The number of requests of each tier of a run, and of both."""
    columns = ("client_rows", "broker_rows", "joined", "never_sent")
    totals: dict[str, dict[str, int]] = {}
    for row in by_window:
        sums = totals.setdefault(names.runs[row["run_code"]], dict.fromkeys(columns, 0))
        for name in columns:
            sums[name] += row[name]
    rows = [
        {"run": run, **sums}
        | {"client_only": sums["client_rows"] - sums["joined"] - sums["never_sent"]}
        | {"broker_only": sums["broker_rows"] - sums["joined"]}
        for run, sums in totals.items()
    ]
    return _sorted_table("joins", rows, ("run",))


def phase_windows(by_window: Sequence[Mapping[str, Any]], names: Names, spans: Mapping[str, RunTimes]) -> pa.Table:
    """The mean of each phase over time, of requests of both tiers."""
    rows = [
        {"run": (run := names.runs[row["run_code"]]), "phase": phase}
        | {"second": row["window"] * spans[run].window_ns / SECOND, "count": row[f"{phase}_count"]}
        | {"mean_ms": mean_ms(row[f"{phase}_count"], row[f"{phase}_total_ns"])}
        for row in by_window
        if row["window"] is not None
        for phase in PHASES
        if row[f"{phase}_count"]
    ]
    return _sorted_table("phase_windows", rows, ("run", "phase", "second"))


def _client_columns(group: Group) -> dict[str, str]:
    return {"run": group.run, "operation": group.operation, "outcome": group.outcome}


def _sorted_table(table: str, rows: list[dict[str, Any]], keys: Sequence[str]) -> pa.Table:
    rows.sort(key=lambda row: [row[key] for key in keys])
    return result_tables.table(table, rows)


def _numbers(table: pa.Table, name: str) -> Integers:
    column: Integers = table[name].fill_null(0).to_numpy().astype(np.int64)
    return column


def _nullable(values: NDArray[np.float64], valid: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=~valid)
