"""A run's trace rows as columns of numbers, for what the laboratory wants to know at once after a run.

Names (of clients, operations, outcomes) become codes that both tiers share, so that the two rows of a request can be
compared without touching a string. Only the columns that are needed leave the disk; ten million rows take half a
gigabyte. Files that were not closed (`.tmp`) are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stafette.errors import InvalidRequest
from stafette.runs.outcomes import TIERS
from stafette.trace import NOT_HERE, PHASES, EndReport

Codes = NDArray[np.int32]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_CODED = ("client", "operation", "outcome")
_PLACES = ("tier", "node")
_NUMBERS = ("request", "intended_ns", "start_ns", "end_ns", "messages", "write_ns")
_AT_ONCE = 1 << 20  # rows decoded at a time: bounds the memory that a large file takes on its way


@dataclass(frozen=True)
class TierRows:
    """The rows of one tier, one array per column."""

    client: Codes
    operation: Codes
    outcome: Codes
    request: Whole
    """0: never sent to a broker."""
    intended: Whole
    start: Whole
    end: Whole
    """Nanoseconds since the epoch, like the two before."""
    messages: Whole
    write: Whole
    """How long the answer took to be handed to the socket, in nanoseconds; -1 in the client tier."""
    phases: dict[str, Whole] = field(default_factory=dict)
    """By the name of the column, when they were asked for; -1 where there was no such phase."""

    def __len__(self) -> int:
        return len(self.request)


@dataclass(frozen=True)
class Rows:
    """All rows of a run, and what its processes said of them when they ended."""

    clients: tuple[str, ...]
    operations: tuple[str, ...]
    outcomes: tuple[str, ...]
    """What the codes stand for: each code is a place in one of these."""
    client: TierRows
    broker: TierRows
    reports: tuple[EndReport, ...]
    written: dict[tuple[str, str], int]
    """Rows that are in the files, by tier and node."""

    def with_outcome(self, tier: TierRows, names: Collection[str]) -> Flags:
        """Which rows of a tier had one of these outcomes."""
        return _chosen(self.outcomes, names)[tier.outcome]

    def with_operation(self, tier: TierRows, names: Collection[str]) -> Flags:
        """Which rows of a tier were one of these operations."""
        return _chosen(self.operations, names)[tier.operation]


def read(folder: Path, *, phases: bool = False) -> Rows:
    """Read the traces of a run from its folder `traces`; the broker's phases only when asked for."""
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}; name the folder of traces of a run that has ended")
    gathering = _Gathering(phases=phases)
    for path in sorted(folder.glob("*.parquet")):
        gathering.take_file(path)
    if not gathering.written:
        raise InvalidRequest(
            f"there are no trace rows in {folder}; check the logs of the run for why none were written"
        )
    return gathering.rows(tuple(_end_report(path) for path in sorted(folder.glob("*.json"))))


def _chosen(all_names: tuple[str, ...], names: Collection[str]) -> Flags:
    return np.array([name in names for name in all_names], dtype=np.bool_)


def _end_report(path: Path) -> EndReport:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EndReport)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"{path} is not the end report of a trace: {error}; repeat the run") from error


class _Gathering:
    """Takes file after file, and puts the columns together at the end."""

    def __init__(self, *, phases: bool) -> None:
        self._phases = PHASES if phases else ()
        self._columns = tuple(dict.fromkeys((*_PLACES, *_CODED, *_NUMBERS, *self._phases)))
        self._codes: dict[str, dict[str, int]] = {name: {} for name in (*_PLACES, *_CODED)}
        self._pieces: dict[str, dict[str, list[NDArray[Any]]]] = {tier: {} for tier in TIERS}
        self.written: dict[tuple[str, str], int] = {}

    def take_file(self, path: Path) -> None:
        try:
            names = pq.read_schema(path).names
            if missing := [name for name in self._columns if name not in names]:
                raise InvalidRequest(f"{path} is not a trace: it has no column {missing[0]}; move it elsewhere")
            with pq.ParquetFile(path, read_dictionary=[*_PLACES, *_CODED]) as file:
                for batch in file.iter_batches(_AT_ONCE, columns=list(self._columns)):
                    self._take_batch(batch)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InvalidRequest(f"{path} cannot be read as a trace: {error}; repeat the run") from error

    def _take_batch(self, batch: Any) -> None:
        columns = {name: self._column(name, batch.column(name)) for name in self._columns}
        tier_codes, node_codes = columns.pop("tier"), columns.pop("node")
        nodes = list(self._codes["node"])
        for tier, code in self._codes["tier"].items():
            if tier not in TIERS:
                raise ValueError(f"there is no tier {tier!r}")
            here = tier_codes == code
            if not here.any():
                continue
            for node, rows in enumerate(np.bincount(node_codes[here])):
                if rows:
                    self.written[tier, nodes[node]] = self.written.get((tier, nodes[node]), 0) + int(rows)
            for name, values in columns.items():
                self._pieces[tier].setdefault(name, []).append(values if here.all() else values[here])

    def _column(self, name: str, column: Any) -> NDArray[Any]:
        if name in PHASES:
            return _whole(column.fill_null(NOT_HERE))
        if column.null_count:
            raise ValueError(f"a row has no {name}")
        return self._recoded(name, column) if name in self._codes else _whole(column)

    def _recoded(self, name: str, column: Any) -> Codes:
        """The codes of a batch are its own; ours hold for the whole run."""
        codes = self._codes[name]
        ours = [codes.setdefault(word, len(codes)) for word in column.dictionary.to_pylist()]
        recoded: Codes = np.array(ours, dtype=np.int32)[column.indices.to_numpy(zero_copy_only=False)]
        return recoded

    def rows(self, reports: tuple[EndReport, ...]) -> Rows:
        clients, operations, outcomes = (tuple(self._codes[name]) for name in _CODED)
        client, broker = (self._tier(self._pieces[tier]) for tier in TIERS)
        return Rows(clients, operations, outcomes, client, broker, reports, self.written)

    def _tier(self, pieces: dict[str, list[NDArray[Any]]]) -> TierRows:
        def whole(name: str, kind: type[Any] = np.int64) -> NDArray[Any]:
            parts = pieces.pop(name, [])  # given up one column at a time, so that never all is there twice
            return np.concatenate(parts) if parts else np.empty(0, dtype=kind)

        client, operation, outcome = (whole(name, np.int32) for name in _CODED)
        request, intended, start, end, messages, write = (whole(name) for name in _NUMBERS)
        phases = {name: write if name == "write_ns" else whole(name) for name in self._phases}
        return TierRows(client, operation, outcome, request, intended, start, end, messages, write, phases)


def _whole(column: Any) -> Whole:
    numbers: Whole = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers
