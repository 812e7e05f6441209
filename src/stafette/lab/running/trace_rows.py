"""A run's trace rows as columns of numbers, for the summary and the checks of a run.

Names of clients, operations and outcomes become codes that both tiers share, so that the two rows of a request are
compared without strings. Only the columns that are needed are read; ten million rows take half a gigabyte. Files that
were not closed (`.tmp`) are ignored.
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
from stafette.trace import NOT_APPLICABLE, PHASES, EndReport

Codes = NDArray[np.int32]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_CODED = ("client", "operation", "outcome")
_ORIGIN = ("tier", "node")
_NUMBERS = ("request", "intended_ns", "start_ns", "end_ns", "messages", "write_ns")
_BATCH_ROWS = 1 << 20  # decoded at a time, which bounds the memory for a large file


@dataclass(frozen=True)
class TierRows:
    """The rows of one tier, one array per column."""

    client: Codes
    operation: Codes
    outcome: Codes
    request: Integers
    """0: never sent to a broker."""
    intended: Integers
    start: Integers
    end: Integers
    """In nanoseconds since the epoch, like `intended` and `start`."""
    messages: Integers
    write: Integers
    """How long the answer took to be handed to the socket, in nanoseconds; -1 in the client tier."""
    phases: dict[str, Integers] = field(default_factory=dict)
    """By the name of the column, if `read` was called with phases; -1 where there was no such phase."""

    def __len__(self) -> int:
        return len(self.request)


@dataclass(frozen=True)
class Rows:
    """All rows of a run, and the end reports of its processes."""

    clients: tuple[str, ...]
    operations: tuple[str, ...]
    outcomes: tuple[str, ...]
    """Names by code, for the three columns of codes."""
    client: TierRows
    broker: TierRows
    reports: tuple[EndReport, ...]
    written: dict[tuple[str, str], int]
    """Number of rows in the files, by tier and node."""

    def with_outcome(self, tier: TierRows, names: Collection[str]) -> Mask:
        """The rows of a tier with one of these outcomes."""
        return _name_mask(self.outcomes, names)[tier.outcome]

    def with_operation(self, tier: TierRows, names: Collection[str]) -> Mask:
        """The rows of a tier with one of these operations."""
        return _name_mask(self.operations, names)[tier.operation]


def read(folder: Path, *, phases: bool = False) -> Rows:
    """Read the traces of a run from its folder `traces`; the broker's phases only if `phases` is set."""
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}; name the folder of traces of a run that has ended")
    collector = _RowCollector(phases=phases)
    for path in sorted(folder.glob("*.parquet")):
        collector.add_file(path)
    if not collector.written:
        raise InvalidRequest(
            f"there are no trace rows in {folder}; check the logs of the run for why none were written"
        )
    return collector.rows(tuple(_end_report(path) for path in sorted(folder.glob("*.json"))))


def _name_mask(all_names: tuple[str, ...], names: Collection[str]) -> Mask:
    return np.array([name in names for name in all_names], dtype=np.bool_)


def _end_report(path: Path) -> EndReport:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EndReport)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"{path} is not the end report of a trace: {error}; repeat the run") from error


class _RowCollector:
    """Adds file after file, and joins the columns at the end."""

    def __init__(self, *, phases: bool) -> None:
        self._phases = PHASES if phases else ()
        self._columns = tuple(dict.fromkeys((*_ORIGIN, *_CODED, *_NUMBERS, *self._phases)))
        self._codes: dict[str, dict[str, int]] = {name: {} for name in (*_ORIGIN, *_CODED)}
        self._pieces: dict[str, dict[str, list[NDArray[Any]]]] = {tier: {} for tier in TIERS}
        self.written: dict[tuple[str, str], int] = {}

    def add_file(self, path: Path) -> None:
        try:
            names = pq.read_schema(path).names
            if missing := [name for name in self._columns if name not in names]:
                raise InvalidRequest(f"{path} is not a trace: it has no column {missing[0]}; move it elsewhere")
            with pq.ParquetFile(path, read_dictionary=[*_ORIGIN, *_CODED]) as file:
                for batch in file.iter_batches(_BATCH_ROWS, columns=list(self._columns)):
                    self._add_batch(batch)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InvalidRequest(f"{path} cannot be read as a trace: {error}; repeat the run") from error

    def _add_batch(self, batch: Any) -> None:
        columns = {name: self._column(name, batch.column(name)) for name in self._columns}
        tier_codes, node_codes = columns.pop("tier"), columns.pop("node")
        nodes = list(self._codes["node"])
        for tier, code in self._codes["tier"].items():
            if tier not in TIERS:
                raise ValueError(f"there is no tier {tier!r}")
            mask = tier_codes == code
            if not mask.any():
                continue
            for node, rows in enumerate(np.bincount(node_codes[mask])):
                if rows:
                    self.written[tier, nodes[node]] = self.written.get((tier, nodes[node]), 0) + int(rows)
            for name, values in columns.items():
                self._pieces[tier].setdefault(name, []).append(values if mask.all() else values[mask])

    def _column(self, name: str, column: Any) -> NDArray[Any]:
        if name in PHASES:
            return _integers(column.fill_null(NOT_APPLICABLE))
        if column.null_count:
            raise ValueError(f"a row has no {name}")
        return self._recode(name, column) if name in self._codes else _integers(column)

    def _recode(self, name: str, column: Any) -> Codes:
        """Turn the codes of a batch into those of the run."""
        codes = self._codes[name]
        run_codes = [codes.setdefault(text, len(codes)) for text in column.dictionary.to_pylist()]
        codes_of_rows: Codes = np.array(run_codes, dtype=np.int32)[column.indices.to_numpy(zero_copy_only=False)]
        return codes_of_rows

    def rows(self, reports: tuple[EndReport, ...]) -> Rows:
        clients, operations, outcomes = (tuple(self._codes[name]) for name in _CODED)
        client, broker = (self._tier(self._pieces[tier]) for tier in TIERS)
        return Rows(clients, operations, outcomes, client, broker, reports, self.written)

    def _tier(self, pieces: dict[str, list[NDArray[Any]]]) -> TierRows:
        def join(name: str, kind: type[Any] = np.int64) -> NDArray[Any]:
            parts = pieces.pop(name, [])  # freed one column at a time, so that memory never holds all columns twice
            return np.concatenate(parts) if parts else np.empty(0, dtype=kind)

        client, operation, outcome = (join(name, np.int32) for name in _CODED)
        request, intended, start, end, messages, write = (join(name) for name in _NUMBERS)
        phases = {name: write if name == "write_ns" else join(name) for name in self._phases}
        return TierRows(client, operation, outcome, request, intended, start, end, messages, write, phases)


def _integers(column: Any) -> Integers:
    numbers: Integers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers
