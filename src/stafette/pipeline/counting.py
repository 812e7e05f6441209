"""The two passes over the rows, and what comes of them: everything that is known of single runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stafette.pipeline import counted
from stafette.pipeline.reduction import Reduction
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.transforms import counts

MANY_ROWS = 5_000_000
"""From here on, names are learned from a sample of the rows, and only those that it lacks from all of them."""


@dataclass(frozen=True)
class Tables:
    """What the rows come to."""

    summary: pa.Table
    windows: pa.Table
    shares: pa.Table
    distribution: pa.Table
    rows: int
    names: Sequence[counts.Names]
    """Of all groups that there were."""


def count(
    rows: DataFrame,
    spans: Sequence[RunTimes],
    limits_us: Sequence[int],
    level: float,
    names: Sequence[counts.Names] = (),
) -> Tables:
    """Count the rows of the runs, and sum them up. All spans have windows of the same length.

    Names that are known already need not be looked for.
    """
    window_ns = spans[0].window_ns
    coarse = counts.coarse(rows, spans, window_ns).toArrow()
    groups = names_of(rows, coarse, names)
    reduction = Reduction(groups, counted.cells(coarse, groups), spans, limits_us)
    of_windows, of_runs = (rows.sparkSession.createDataFrame(table) for table in reduction.needed())
    exact = counts.exact(rows, spans, window_ns, of_windows=of_windows, of_runs=of_runs).toArrow()
    reduction.settle(counted.values(exact, groups))
    windows = reduction.windows()
    return Tables(
        summary=reduction.summary(windows, level),
        windows=windows,
        shares=reduction.shares(),
        distribution=reduction.distribution(),
        rows=pc.sum(coarse["count"]).as_py() or 0,
        names=groups.names,
    )


def names_of(rows: DataFrame, coarse: pa.Table, known: Sequence[counts.Names] = ()) -> counted.Groups:
    """What the codes of a coarse table stand for: by the names that are known, by a sample, by all rows."""
    there = coarse["code"].unique()
    named = counts.coded(rows.sparkSession, known).toArrow() if known else None
    if named is None:
        many = pc.sum(coarse["count"]).as_py() or 0
        named = counts.names(rows, sampled=many >= MANY_ROWS).toArrow()
    missing = set(there.to_pylist()) - set(named["code"].to_pylist())
    if missing:
        named = pa.concat_tables([named, counts.names(rows, only=sorted(missing)).toArrow()])
    return counted.Groups(named.filter(pc.is_in(named["code"], there)))
