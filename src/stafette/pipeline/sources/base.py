"""What every source returns: rows of one schema, the rejects, and the runs of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.window import Window

LONGEST_NS = 31 * 86_400 * 1_000_000_000
"""The longest request. A longer one has a wrong unit, and its square does not fit into Spark's numbers."""
NAMES = ("run", "tier", "operation", "outcome")


@dataclass(frozen=True)
class Run:
    """The metadata of a run; sources that have less leave the defaults."""

    run: str
    """Its id, which the rows have, too."""
    experiment: str = ""
    label: str = "single"
    levels: Mapping[str, Any] = field(default_factory=dict)
    repetition: int = 1
    design: str = "single"
    """The kind: single, sweep, factorial or 2k."""
    state: str = "done"
    why: str | None = None
    """Why it failed or was interrupted."""
    load: Window | None = None
    window: Window | None = None
    """The measured part of the load; None: the source does not say."""
    valid: bool | None = None
    """The laboratory's verdict; None: there was none."""
    sentences: Sequence[str] = ()
    clients: Mapping[str, int] = field(default_factory=dict)
    """Their number by group."""
    think_time_s: float | None = None
    """Mean over all clients; None: unknown, or an open loop."""
    closed_loop: ClosedLoop | None = None
    """What Little's law needs; None: it cannot be checked."""
    brokers: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    """A path, or a URL on another file system."""


@dataclass(frozen=True)
class BadFile:
    """A file that cannot be read at all."""

    file: str
    reason: str


@dataclass(frozen=True)
class Samples:
    """The samples of each second; a column has the run."""

    queues: DataFrame
    database: DataFrame
    processes: DataFrame
    machines: DataFrame
    without: Callable[[Sequence[BadFile]], Samples]
    """Returns the samples without bad files."""


@dataclass(frozen=True)
class Source:
    """The rows of traces, with their rejects and runs."""

    rows: DataFrame
    """Of schema.ROWS; without runs that are stored already and, by default, without those that are not done."""
    rejects: DataFrame
    """Of schema.REJECTS."""
    runs: Sequence[Run] = ()
    """All runs that have a record, also those without rows here; empty if the source has no records."""
    samples: Samples | None = None
    names: Sequence[tuple[str, ...]] = ()
    """Run, tier, operation and outcome of the rows; empty if unknown."""
    row_count: int | None = None
    """The number of rows and rejects together; None: unknown."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of the files of each run; `""` stands for all runs of a source that does not know them."""
    fresh: Sequence[str] = ()
    """The runs of the rows; those of the other fingerprints are stored already."""
    bytes: Mapping[str, int] = field(default_factory=dict)
    """The size of the traces of each run; `""` as in `fingerprints`."""
    bad: Sequence[BadFile] = ()
    """Unreadable files that have no rows, such as records of runs."""
    paired: bool = True
    """Whether rows of two tiers can belong to one request."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """The folder of each run, if there are no records."""
    without: Callable[[BadFile], Source] | None = None
    """Returns the source without a bad file."""
    parsed: DataFrame | None = None
    """The table that rows and rejects are made of, if it is worth caching while both are written."""
