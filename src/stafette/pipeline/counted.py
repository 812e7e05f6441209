"""What was counted, as arrays: groups, and the cells of the two passes over the rows (see `transforms.counts`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stafette.errors import InternalError
from stafette.pipeline.transforms import counts
from stafette.runs.outcomes import ALL, ANSWERED, SUCCESSES

Whole = NDArray[np.int64]
Number = NDArray[np.float64]
Flags = NDArray[np.bool_]

NOBODY = -1


@dataclass(frozen=True)
class Group:
    """Requests that are summed up together."""

    run: str
    tier: str
    operation: str
    outcome: str


class Groups:
    """The groups that rows fall into by their names, and for each run and tier the one of all that were answered."""

    def __init__(self, named: pa.Table) -> None:
        rows = sorted(named.to_pylist(), key=lambda row: [row[name] for name in counts.NAMES])
        if len({row["code"] for row in rows}) < len(rows):
            raise InternalError("two groups of requests have the same hash; rename an operation or an outcome")
        self.names: list[counts.Names] = [(row["run"], row["tier"], row["operation"], row["outcome"]) for row in rows]
        self.listed = [Group(*names) for names in self.names]
        whole = {}
        answered = []
        for group in tuple(self.listed):
            together = Group(group.run, group.tier, ALL, ANSWERED)
            if group.outcome not in SUCCESSES:
                answered.append(NOBODY)
                continue
            if together not in whole:
                whole[together] = len(self.listed)
                self.listed.append(together)
            answered.append(whole[together])
        self.codes: Whole = np.array([row["code"] for row in rows], dtype=np.int64)
        self._answered: Whole = np.array(answered, dtype=np.int64)
        self._order = np.argsort(self.codes)

    def __len__(self) -> int:
        return len(self.listed)

    def own(self, codes: Whole) -> Whole:
        """The group of each code."""
        found: Whole = self._order[np.searchsorted(self.codes[self._order], codes)]
        return found

    def shared(self, own: Whole) -> Whole:
        """The group of all that were answered that each group is part of; -1: of none."""
        found: Whole = self._answered[own]
        return found

    def members(self, group: int) -> Whole:
        """The codes of a group."""
        if group < len(self.codes):
            return self.codes[group : group + 1]
        found: Whole = self.codes[self._answered == group]
        return found


@dataclass(frozen=True)
class Cells:
    """The first pass: one cell for each group, window, bin, and windows from start to end. Groups may overlap."""

    group: Whole
    window: Whole
    last: Whole
    """The window that the requests ended in."""
    starts: Flags
    ends: Flags
    bin: Whole
    count: Whole
    total_ns: Whole
    squares: Number
    longest_ns: Whole
    bytes: Whole
    messages: Whole

    def where(self, chosen: Flags) -> Cells:
        """Some of the cells."""
        return Cells(**{name: column[chosen] for name, column in vars(self).items()})


def cells(table: pa.Table, groups: Groups) -> Cells:
    """The cells of a coarse table, those of groups of all that were answered beside the others."""
    own = groups.own(_column(table, "code"))
    shared = groups.shared(own)
    chosen = np.concatenate([np.arange(len(own)), np.flatnonzero(shared != NOBODY)])
    place = _column(table, "place")[chosen]
    flags = place >> counts.BIN_BITS & 2**counts.FLAG_BITS - 1
    length = place >> counts.BIN_BITS + counts.FLAG_BITS & counts.MOST_LENGTH
    window = (place >> counts.BIN_BITS + counts.FLAG_BITS + counts.LENGTH_BITS) - 1
    columns = {name: _column(table, name)[chosen] for name in counts.COARSE.names if name not in ("code", "place")}
    return Cells(
        group=np.concatenate([own, shared[shared != NOBODY]]),
        window=window,
        last=window + length,
        starts=flags & counts.STARTS > 0,
        ends=flags & counts.ENDS > 0,
        bin=place & 2**counts.BIN_BITS - 1,
        **columns,
    )


@dataclass(frozen=True)
class Values:
    """The second pass: how often each value (in µs) was seen where it was asked for; window -1: only in the run."""

    group: Whole
    window: Whole
    starts: Flags
    value: Whole
    count: Whole


def values(table: pa.Table, groups: Groups) -> Values:
    """The counts of an exact table, those of groups of all that were answered beside the others."""
    own = groups.own(_column(table, "code"))
    shared = groups.shared(own)
    chosen = np.concatenate([np.arange(len(own)), np.flatnonzero(shared != NOBODY)])
    spot = _column(table, "spot")[chosen]
    return Values(
        group=np.concatenate([own, shared[shared != NOBODY]]),
        window=(spot >> counts.SPOT_BITS + 1) - 1,
        starts=(spot >> counts.SPOT_BITS & 1) > 0,
        value=spot & 2**counts.SPOT_BITS - 1,
        count=_column(table, "count")[chosen],
    )


def sums(places: Whole, weights: Whole, size: int) -> Whole:
    """The sum of whole numbers at each place; exact, unlike with bincount."""
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, places, weights)
    return total


def _column(table: pa.Table, name: str) -> NDArray[np.int64]:
    column: NDArray[np.int64] = table[name].combine_chunks().to_numpy(zero_copy_only=False)
    return column


def key_frame(parts: Sequence[tuple[str, Whole]]) -> pa.Table:
    """A small table of whole numbers."""
    return pa.table({name: pa.array(column, type=pa.int64()) for name, column in parts})
