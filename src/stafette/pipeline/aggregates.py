"""What the tables of single runs are made of: aggregates of the requests of each run.

Those of a run are stored beside its requests, so that one more run costs one run. They are used again for the same
requests, times and limits; the level of confidence comes later. A store that cannot be read or written only costs time.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from stafette.pipeline import results, store, times
from stafette.pipeline.ingest import Requests
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.sources import files
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES

VERSION = 1
"""Of these tables; those of another version are made again."""
METRICS, BINS, WINDOWS, TIERS, PHASES = "metrics", "bins", "windows", "tiers", "phases"
ALL = (METRICS, BINS, WINDOWS, TIERS, PHASES)
COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")

Tables = dict[str, pa.Table]
"""Tables by the names above; each has a column `run_code`."""


def aggregate(
    requests: Requests, spans: Sequence[RunTimes], limits_us: Sequence[int], names: Sequence[str] = ALL
) -> Tables:
    """The aggregates of the runs: those that are stored, and the others, which then are stored, too."""
    keys = {
        span: _key(addition, span, limits_us) for span in spans if (addition := requests.addition(span.run)) is not None
    }
    stored = _stored(requests, keys.values())
    fresh = [span for span, key in keys.items() if any(name not in stored[key] for name in names)]
    missing = [name for name in names if any(name not in stored[keys[span]] for span in fresh)]
    tables = _aggregate(requests, fresh, limits_us, missing)
    _store(requests, tables, {span.run: keys[span] for span in fresh})
    fresh_keys = {keys[span] for span in fresh}
    for name in names:
        old = [stored[key][name] for key in keys.values() if name not in missing or key not in fresh_keys]
        tables[name] = pa.concat_tables([*old, tables[name]] if name in missing else old)
    return tables


def _aggregate(requests: Requests, spans: Sequence[RunTimes], limits_us: Sequence[int], names: Sequence[str]) -> Tables:
    if not spans:
        return {}
    frame = requests.of_runs([span.run for span in spans])
    run_times = times.frame(frame.sparkSession, spans)
    rows = results.by_tier(frame)
    tables: Tables = {}
    if METRICS in names:
        counts = results.measured_counts(rows, run_times, requests.groups).persist()
        try:
            tables[METRICS] = results.summary(counts, limits_us).toArrow()
            tables[BINS] = results.distribution(counts).toArrow()
        finally:
            counts.unpersist()
    if WINDOWS in names:
        tables[WINDOWS] = results.windows(rows, run_times, requests.groups, spans[0].window_ns).toArrow()
    if TIERS in names:
        tables[TIERS] = results.tiers(frame, run_times).toArrow()
    if PHASES in names:
        tables[PHASES] = results.phases(frame, run_times).toArrow()
    return tables


# Stored


def _key(addition: str, span: RunTimes, limits_us: Sequence[int]) -> str:
    definition = (VERSION, list(PERCENTILES.items()), list(WINDOW_PERCENTILES.items()), results.PHASES)
    return hashlib.sha256(repr((definition, addition, span, list(limits_us))).encode()).hexdigest()[:32]


def _stored(requests: Requests, keys: Iterable[str]) -> Mapping[str, Tables]:
    """The stored tables by key."""
    tables: dict[str, Tables] = defaultdict(dict)
    with contextlib.suppress(*files.SPARK_ERRORS):
        for row in store.stored_aggregates(requests.frame.sparkSession, requests.root, keys).to_pylist():
            tables[row["key"]][row["name"]] = pa.ipc.open_stream(row["data"]).read_all()
    return tables


def _store(requests: Requests, tables: Tables, keys: Mapping[str, str]) -> None:
    rows = [
        (keys[run], name, _bytes(table))
        for name, all_runs in tables.items()
        for run, table in _by_run(all_runs, requests.names.runs, keys)
    ]
    if rows:
        with contextlib.suppress(*files.SPARK_ERRORS):
            store.add_aggregates(requests.frame.sparkSession, requests.root, rows)


def _by_run(table: pa.Table, run_ids: Mapping[int, str], runs: Iterable[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each run; none for a run without any."""
    ordered = table.sort_by("run_code")
    run_codes = ordered["run_code"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(run_codes)) + 1), len(run_codes)] if len(run_codes) else []
    slices = {run_ids[int(run_codes[start])]: ordered.slice(start, end - start) for start, end in pairwise(edges)}
    for run in runs:
        yield run, slices.get(run, ordered.slice(0, 0))


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=COMPRESSED) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())
