"""Exact metrics of durations from counts by the microsecond.

Durations are counted by key and microsecond: each count has its sum and sum of squares as whole numbers, so that mean
and deviation are exact. Cumulated counts are ranks, from which percentiles follow (see `stafette.runs.percentiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

MOMENTS = ("count", "total_ns", "squares", "longest_ns")
_DECIMAL = "decimal(38,0)"


def count(rows: DataFrame, keys: Sequence[str], duration: str, sums: Sequence[str] = ()) -> DataFrame:
    """The number of durations by the keys and the microsecond (`us`, rounded down).

    `rest` and `rest_squares` are the sums of the nanoseconds above the microsecond and of their squares; `sums` are
    further columns to sum up. A duration may be negative.
    """
    rest = F.pmod(F.col(duration), F.lit(1000).cast("long"))
    us = F.expr(f"({duration} - pmod({duration}, 1000L)) div 1000L")
    durations = rows.select(*keys, us.alias("us"), rest.alias("rest"), *sums)
    return durations.groupBy(*keys, "us").agg(
        F.count(F.lit(1)).alias("count"),
        F.sum("rest").alias("rest"),
        F.sum(F.col("rest") * F.col("rest")).alias("rest_squares"),
        F.max("rest").alias("longest_rest"),
        *(F.sum(name).alias(name) for name in sums),
    )


def merge(counts: DataFrame, keys: Sequence[str], sums: Sequence[str] = ()) -> DataFrame:
    """The sum of counts with the same keys and microsecond."""
    return counts.groupBy(*keys, "us").agg(
        F.sum("count").alias("count"),
        F.sum("rest").alias("rest"),
        F.sum("rest_squares").alias("rest_squares"),
        F.max("longest_rest").alias("longest_rest"),
        *(F.sum(name).alias(name) for name in sums),
    )


def metrics(
    counts: DataFrame,
    keys: Sequence[str],
    percentiles: Mapping[str, int],
    *,
    limits_us: Sequence[int] = (),
    sums: Sequence[str] = (),
) -> DataFrame:
    """Moments, percentiles (name to thousandths; µs) and counts below limits (`below_0` …) by the keys."""
    by_keys = Window.partitionBy(*keys)
    upto = by_keys.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = counts.withColumns({"upto": F.sum("count").over(upto), "all": F.sum("count").over(by_keys)})
    us, us_decimal = F.col("us"), F.col("us").cast(_DECIMAL)
    squares = (
        us_decimal * us_decimal * 1_000_000 * F.col("count") + us_decimal * 2000 * F.col("rest") + F.col("rest_squares")
    )
    below = {f"below_{number}": F.sum(F.when(us < limit, F.col("count")).otherwise(0)) for number, limit in
             enumerate(limits_us)}  # fmt: skip
    return ranked.groupBy(*keys).agg(
        F.sum("count").alias("count"),
        F.sum(us * 1000 * F.col("count") + F.col("rest")).alias("total_ns"),
        F.sum(squares.cast(_DECIMAL)).cast(_DECIMAL).alias("squares"),
        F.max(us * 1000 + F.col("longest_rest")).alias("longest_ns"),
        *(F.sum(name).alias(name) for name in sums),
        *(_at_rank(thousandths).alias(name) for name, thousandths in percentiles.items()),
        *(column.alias(name) for name, column in below.items()),
    )


def _at_rank(thousandths: int) -> Column:
    """The least value whose cumulated count reaches the rank. In whole numbers, for 0.55 · 100 is more than 55."""
    return F.min(F.when(F.col("upto") * 1000 >= F.col("all") * thousandths, F.col("us")))


def bin_edges() -> tuple[Column, Column]:
    """The lower (inclusive) and upper edge of the bin of `us`: four bins per doubling, whole microseconds."""
    us = F.greatest(F.col("us"), F.lit(0).cast("long"))
    width = F.when(us < 8, F.lit(1).cast("long")).otherwise(F.expr("shiftleft(1L, length(bin(greatest(us, 0L))) - 3)"))
    low = us - us % width
    return low, low + width
