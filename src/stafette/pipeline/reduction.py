"""From counts to the tables of a run: summary, windows, shares and distribution, in numpy on what Spark has counted.

Two passes over the rows: the counts by bin say where the percentiles lie, the counts by microsecond what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stafette.pipeline import ranks
from stafette.pipeline.counted import Cells, Group, Groups, Number, Values, Whole, key_frame, sums
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.transforms.bins import bins_of, lower_bounds
from stafette.report import result_tables
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES
from stafette.runs.outcomes import ANSWERED, SUCCESSES
from stafette.runs.window import SECOND
from stafette.statistics import intervals

BATCHES = (20, 10)
"""How many batches one long run is cut into: the first number for which there are windows enough."""
PER_OCTAVE = 4
"""Bars of the distribution from a value to its double."""
MILLISECOND = 1e6


class Reduction:
    """The tables of all runs. First `needed` says what must be counted exactly, then `settle` is given it."""

    def __init__(self, groups: Groups, cells: Cells, spans: Sequence[RunTimes], limits_us: Sequence[int]) -> None:
        self._groups = groups
        self._spans = {span.run: span for span in spans}
        self._limits = tuple(limits_us)
        self._stride = 1 + max((span.windows for span in spans), default=1)
        windows = np.array([self._spans[group.run].windows for group in groups.listed], dtype=np.int64)
        self._inside = cells.where(cells.starts)
        self._begun = cells.where((cells.window >= 0) & (cells.window < windows[cells.group]))
        self._ended = cells.where((cells.last >= 0) & (cells.last < windows[cells.group]))
        self._done = cells.where(cells.ends)
        self._of_run = ranks.locate(
            self._inside.group, self._inside.bin, self._inside.count, list(PERCENTILES.values())
        )
        self._of_windows = ranks.locate(
            self._begun.group * self._stride + self._begun.window,
            self._begun.bin,
            self._begun.count,
            list(WINDOW_PERCENTILES.values()),
        )

    def needed(self) -> tuple[pa.Table, pa.Table]:
        """Which bins must be counted by the microsecond: those of windows, and those of runs."""
        located = self._of_windows
        group, window = np.divmod(located.keys, self._stride)
        of_windows = self._members(group, window + 1, located.bins)
        edges = [int(bins_of(np.array([limit]))[0]) for limit in self._limits]
        inner = [
            edge for edge, limit in zip(edges, self._limits, strict=True) if lower_bounds(np.array([edge]))[0] != limit
        ]
        run_bins = np.concatenate(
            [self._of_run.bins, np.tile(inner, (len(self._of_run.keys), 1)).astype(np.int64)], axis=1
        )
        of_runs = self._members(self._of_run.keys, np.zeros_like(self._of_run.keys), run_bins)
        return (
            key_frame([("code", of_windows[0]), ("window", of_windows[1]), ("bin", of_windows[2])]),
            key_frame([("code", of_runs[0]), ("bin", of_runs[2])]),
        )

    def _members(self, group: Whole, window: Whole, bins: Whole) -> Whole:
        """Code, window and bin for each code of the groups, each once."""
        found = [np.empty((3, 0), dtype=np.int64)]
        for one in np.unique(group):
            mine = group == one
            pairs = np.stack([np.repeat(window[mine], bins.shape[1]), bins[mine].reshape(-1)])
            found += [
                np.concatenate([np.full((1, pairs.shape[1]), code, dtype=np.int64), pairs])
                for code in self._groups.members(int(one))
            ]
        whole = np.concatenate(found, axis=1)
        whole = whole[:, np.lexsort(whole[::-1])]  # so much faster than numpy's unique of columns
        new = np.ones(whole.shape[1], dtype=np.bool_)
        new[1:] = (whole[:, 1:] != whole[:, :-1]).any(axis=0)
        distinct: Whole = whole[:, new]
        return distinct

    def settle(self, values: Values) -> None:
        """Take the exact counts."""
        starts = values.starts
        self._run_values = ranks.Ranked(values.group[starts], values.value[starts], values.count[starts])
        inside = values.window >= 0
        keys = values.group[inside] * self._stride + values.window[inside]
        self._window_values = ranks.Ranked(keys, values.value[inside], values.count[inside])

    # The tables

    def windows(self) -> pa.Table:
        """Window by window. Of groups that were answered all windows, of others those in which there was something."""
        size, stride = len(self._groups) * self._stride, self._stride
        key = self._begun.group * stride + self._begun.window
        count, total = sums(key, self._begun.count, size), sums(key, self._begun.total_ns, size)
        longest = np.zeros(size, dtype=np.int64)
        np.maximum.at(longest, key, self._begun.longest_ns)
        answers = sums(self._ended.group * stride + self._ended.last, self._ended.count, size)
        percentiles = np.zeros((size, len(WINDOW_PERCENTILES)), dtype=np.int64)
        percentiles[self._of_windows.keys] = self._window_values.at(self._of_windows)
        parts = [self._windows_of(number, count, answers) for number in range(len(self._groups))]
        kept = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, dtype=np.int64)
        seconds = np.concatenate([part[1] for part in parts]) if parts else np.empty(0)
        group = kept // stride
        start = (
            np.array([self._spans[one.run].window_ns for one in self._groups.listed])[group] / SECOND * (kept % stride)
        )
        there = count[kept] > 0
        return result_tables.columns(
            "windows",
            self._names(group)
            | {
                "second": start,
                "seconds": seconds,
                "count": count[kept],
                "throughput_per_s": answers[kept] / seconds,
                "mean_ms": _masked(total[kept] / np.maximum(count[kept], 1) / MILLISECOND, there),
                "max_ms": _masked(longest[kept] / MILLISECOND, there),
            }
            | {name: _masked(percentiles[kept, at] / 1000, there) for at, name in enumerate(WINDOW_PERCENTILES)},
        )

    def _windows_of(self, number: int, count: Whole, answers: Whole) -> tuple[Whole, Number]:
        group = self._groups.listed[number]
        span = self._spans[group.run]
        keys = number * self._stride + np.arange(span.windows, dtype=np.int64)
        lengths = span.lengths() / SECOND
        if group.outcome in (*SUCCESSES, ANSWERED):
            return keys, lengths
        something = (count[keys] > 0) | (answers[keys] > 0)
        return keys[something], lengths[something]

    def summary(self, windows: pa.Table, level: float = intervals.LEVEL) -> pa.Table:
        """Run by run; of groups of which something began or ended in the measured window."""
        size = len(self._groups)
        cells = self._inside
        count, total, bytes_, messages = (
            sums(cells.group, column, size) for column in (cells.count, cells.total_ns, cells.bytes, cells.messages)
        )
        squares = np.bincount(cells.group, weights=cells.squares, minlength=size)
        longest = np.zeros(size, dtype=np.int64)
        np.maximum.at(longest, cells.group, cells.longest_ns)
        answers = sums(self._done.group, self._done.count, size)
        percentiles = np.zeros((size, len(PERCENTILES)), dtype=np.int64)
        percentiles[self._of_run.keys] = self._run_values.at(self._of_run)
        batches = self._batch_means(windows, level)
        rows = []
        for number, group in enumerate(self._groups.listed):
            if not count[number] and not answers[number]:
                continue
            row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["summary"].names)
            row |= vars(group) | {"count": int(count[number])}
            row["throughput_per_s"] = answers[number] / self._spans[group.run].measured.seconds
            row |= {"bytes": int(bytes_[number]), "messages": int(messages[number])}
            if count[number]:
                row |= _moments(int(count[number]), int(total[number]), float(squares[number]), level)
                row |= {name: percentiles[number, at] / 1000 for at, name in enumerate(PERCENTILES)}
                row["max_ms"] = longest[number] / MILLISECOND
                row["batch_low_ms"], row["batch_high_ms"] = batches.get(group, (None, None))
            rows.append(row)
        return result_tables.table("summary", rows)

    def _batch_means(self, windows: pa.Table, level: float) -> dict[Group, tuple[float | None, float | None]]:
        """Intervals over the means of the windows that lie in the measured one."""
        found = {}
        for group, rows in by_group(windows).items():
            span = self._spans[group.run]
            inside = span.inside()
            place = np.rint(np.array(rows["second"]) * SECOND / span.window_ns).astype(int)
            means = [mean for mean, at in zip(rows["mean_ms"], place, strict=True) if inside[at] and mean is not None]
            number = next((number for number in BATCHES if len(means) >= number), None)
            if number is not None:
                estimate = intervals.batch_interval(means, number, level).estimate
                found[group] = (estimate.low, estimate.high)
        return found

    def shares(self) -> pa.Table:
        """Which share of the responses was below each limit."""
        rows = []
        for group, bins, counts in self._each_inside():
            total = int(counts.sum())
            for limit in self._limits:
                edge = int(bins_of(np.array([limit]))[0])
                below = int(counts[bins < edge].sum())
                if lower_bounds(np.array([edge]))[0] != limit:
                    below += self._run_values.below(group, edge, limit)
                named = vars(self._groups.listed[group])
                rows.append(named | {"limit_ms": limit / 1000, "share": below / total})
        return result_tables.table("shares", rows)

    def distribution(self) -> pa.Table:
        """How often which response time, in bins of about equal ratio; of the clients, where there are any."""
        with_clients = {group.run for group in self._groups.listed if group.tier == "client"}
        edges = display_edges()
        rows = []
        for number, bins, amounts in self._each_inside():
            group = self._groups.listed[number]
            if group.run in with_clients and group.tier != "client":
                continue
            bars = np.searchsorted(edges, lower_bounds(bins), side="right") - 1
            counts = sums(bars, amounts, len(edges))
            named = {"run": group.run, "operation": group.operation, "outcome": group.outcome}
            rows += [named | {"bin_ms": edges[bar] / 1000, "count": int(counts[bar])} for bar in np.flatnonzero(counts)]
        return result_tables.table("distribution", rows)

    def _each_inside(self) -> Iterator[tuple[int, Whole, Whole]]:
        """Each group with its bins and how often they occur. Sorted once: there may be millions of cells."""
        order = np.argsort(self._inside.group, kind="stable")
        bins, counts = self._inside.bin[order], self._inside.count[order]
        groups, first = np.unique(self._inside.group[order], return_index=True)
        yield from zip(map(int, groups), np.split(bins, first[1:]), np.split(counts, first[1:]), strict=True)

    def _names(self, group: Whole) -> dict[str, pa.Array]:
        def column(value: Callable[[Group], str]) -> pa.Array:
            codes = pa.array(group, type=pa.int32())
            names = [value(one) for one in self._groups.listed]
            return pa.DictionaryArray.from_arrays(codes, pa.array(names, type=pa.string())).cast(pa.string())

        return {
            "run": column(lambda one: one.run),
            "tier": column(lambda one: one.tier),
            "operation": column(lambda one: one.operation),
            "outcome": column(lambda one: one.outcome),
        }


def display_edges() -> Whole:
    """Lower bounds of the bars of a distribution, in µs: bounds of bins, about PER_OCTAVE to each doubling."""
    wanted = np.rint(8 * 2 ** (np.arange(40 * PER_OCTAVE) / PER_OCTAVE)).astype(np.int64)
    return np.unique(np.concatenate([[0], lower_bounds(bins_of(wanted))]))


def by_group(windows: pa.Table) -> dict[Group, dict[str, list[Any]]]:
    """The windows of each group as columns, in order of time."""
    found: dict[Group, dict[str, list[Any]]] = {}
    wanted = ("second", "seconds", "count", "throughput_per_s", "mean_ms")
    named = [windows[name].to_pylist() for name in ("run", "tier", "operation", "outcome")]
    rest = [windows[name].to_pylist() for name in wanted]
    for at, names in enumerate(zip(*named, strict=True)):
        columns = found.setdefault(Group(*names), {name: [] for name in wanted})
        for name, column in zip(wanted, rest, strict=True):
            columns[name].append(column[at])
    return dict(found)


def _moments(count: int, total_ns: int, squares: float, level: float) -> dict[str, float | None]:
    mean = total_ns / count
    found: dict[str, float | None] = {"mean_ms": mean / MILLISECOND}
    if count < 2:
        return found
    deviation = float(np.sqrt(max(0.0, squares - total_ns * mean) / (count - 1))) / MILLISECOND
    around = intervals.mean_interval_from(mean / MILLISECOND, deviation, count, level)
    spread = intervals.deviation_interval_from(deviation, count, level)
    return found | {
        "stddev_ms": deviation,
        "mean_low_ms": around.low,
        "mean_high_ms": around.high,
        "stddev_low_ms": spread.low,
        "stddev_high_ms": spread.high,
    }


def _masked(values: Number, there: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    return pa.array(values, mask=~there)
