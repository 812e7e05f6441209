"""What every source gives: rows of one shape, what it rejected, and the runs that the rows are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.window import Window

LONGEST_NS = 31 * 86_400 * 1_000_000_000
"""Of a request in somebody's log. Longer ones are a wrong unit, and their squares do not fit into Spark's numbers."""
NAMES = ("run", "tier", "operation", "outcome")


@dataclass(frozen=True)
class Run:
    """What is known of a run beside its rows; sources that know less leave the defaults."""

    run: str
    """Its id; the rows bear it, too."""
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
    """What was measured of the load; None: nobody said."""
    valid: bool | None = None
    """The laboratory's verdict; None: there was none."""
    sentences: Sequence[str] = ()
    clients: Mapping[str, int] = field(default_factory=dict)
    """How many there were, by group."""
    think_time_s: float | None = None
    """Mean over all clients; None: unknown, or an open loop."""
    closed_loop: ClosedLoop | None = None
    """What Little's law needs; None: it cannot be checked."""
    brokers: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    """Where it was found: a path, or a URL on another file system."""


@dataclass(frozen=True)
class BadFile:
    """A file that cannot be read at all."""

    file: str
    reason: str


@dataclass(frozen=True)
class Samples:
    """What was sampled each second, with the run in a column of its own."""

    queues: DataFrame
    database: DataFrame
    processes: DataFrame
    machines: DataFrame
    without: Callable[[Sequence[BadFile]], Samples]
    """The same without files that turned out to be bad."""


@dataclass(frozen=True)
class Source:
    """What was read."""

    rows: DataFrame
    """Of schema.ROWS; only of runs that are done, unless others were asked for, and not of those that are kept."""
    rejects: DataFrame
    """Of schema.REJECTS."""
    runs: Sequence[Run] = ()
    """All that are recorded, also those whose rows were left out; none where only the rows can say."""
    samples: Samples | None = None
    names: Sequence[tuple[str, ...]] = ()
    """Run, tier, operation and outcome of the rows, if they are known."""
    expected: int | None = None
    """How many rows there are with those that are rejected, if that is known."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of each run that has rows, of its files; `""` is for all runs of a source that does not know them."""
    fresh: Sequence[str] = ()
    """Which of these the rows are of; the others are kept."""
    bytes: int = 0
    """Of all its files."""
    bad: Sequence[BadFile] = ()
    """Files beside the rows that cannot be read."""
    paired: bool = True
    """Whether rows of two tiers can belong to one request."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Of each run, where nothing else says it."""
    without: Callable[[BadFile], Source] | None = None
    """The same without a file that turned out to be bad."""
    parsed: DataFrame | None = None
    """What rows and rejects are both made of, if it is worth to be kept while both are written."""
