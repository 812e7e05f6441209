"""Counts by the microsecond, and the figures that are made of them, against Python's whole numbers.

All cases are in one table, by a key, so that a few Spark jobs do for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline import counts
from stafette.runs.moments import mean_ms, stddev_ms
from tests.support.spark_frames import assert_no_python

PERCENTILES = {f"p{thousandths}": thousandths for thousandths in (1, 25, 500, 550, 900, 950, 975, 990, 999, 1000)}
LIMITS_US = (0, 1, 5, 1000, 123_456)
HOUR = 3_600 * 10**9

Cases = dict[str, NDArray[np.int64]]


def cases() -> Cases:
    """Durations in nanoseconds: some on the edges of microseconds and bins, others by chance."""
    chance = np.random.default_rng(11)
    edges = [0, 1, 999, 1000, 1001, 1999, 7999, 8000, 15_999, 16_000]
    named = {
        "one": [7],
        "nothing": [0],
        "all the same": [1234] * 17,
        "edges": edges,
        "below nothing": [-edge for edge in edges],
        "around nothing": [*edges, *(-edge for edge in edges)],
        "an hour and more": [HOUR + 1, HOUR - 1, 100 * HOUR],
        "a hundred": [number * 1000 for number in range(100)],  # 0.55 · 100 is more than 55
    }
    drawn = {
        f"{size} about {scale}": chance.integers(-scale // 10, scale, size)
        for size in (2, 3, 10, 100, 1000)
        for scale in (100, 10_000, 10**6, 10**9, HOUR)
    }
    return {name: np.array(values, dtype=np.int64) for name, values in (named | drawn).items()}


@pytest.fixture(scope="module")
def durations(spark: SparkSession) -> DataFrame:
    """Each duration with its case, and with the part of the rows that it is in."""
    chance = np.random.default_rng(12)
    keys = np.concatenate([[name] * len(values) for name, values in cases().items()])
    values = np.concatenate(list(cases().values()))
    columns = {"key": keys, "ns": values, "part": chance.integers(0, 3, len(keys)), "bytes": np.arange(len(keys))}
    return spark.createDataFrame(pa.table(columns))


def bytes_of(name: str) -> int:
    first = 0
    for each, values in cases().items():
        if each == name:
            return int(np.arange(first, first + len(values)).sum())
        first += len(values)
    raise KeyError(name)


def test_each_duration_is_counted_at_its_microsecond(durations: DataFrame) -> None:
    rows = counts.count(durations, ("key",), "ns", ("bytes",)).toArrow().to_pylist()

    assert {row["key"] for row in rows} == set(cases())
    assert sum(row["bytes"] for row in rows if row["key"] == "edges") == bytes_of("edges")
    for name, values in cases().items():
        here = {row["us"]: row for row in rows if row["key"] == name}
        assert here.keys() == set((values // 1000).tolist())  # numpy rounds down, too
        for us, row in here.items():
            rests = [int(value) - 1000 * us for value in values if value // 1000 == us]
            assert (row["count"], row["rest"], row["longest_rest"]) == (len(rests), sum(rests), max(rests))
            assert row["rest_squares"] == sum(rest * rest for rest in rests)


def test_figures_of_merged_counts_are_exact(durations: DataFrame) -> None:
    parts = counts.count(durations, ("key", "part"), "ns", ("bytes",))
    merged = counts.merge(parts, ("key",), ("bytes",))

    frame = counts.metrics(merged, ("key",), PERCENTILES, limits_us=LIMITS_US, sums=("bytes",))

    assert_no_python(frame)
    rows = {row["key"]: row for row in frame.toArrow().to_pylist()}
    assert rows.keys() == cases().keys()
    for name, values in cases().items():
        row, ordered = rows[name], np.sort(values // 1000)
        whole = [int(value) for value in values]
        assert {moment: int(row[moment]) for moment in counts.MOMENTS} == {
            "count": len(whole), "total_ns": sum(whole), "squares": sum(value * value for value in whole),
            "longest_ns": max(whole),
        }, name  # fmt: skip
        for percentile, thousandths in PERCENTILES.items():
            assert row[percentile] == ordered[-(-thousandths * len(ordered) // 1000) - 1], (name, percentile)
        for number, limit in enumerate(LIMITS_US):
            assert row[f"below_{number}"] == (values < 1000 * limit).sum(), (name, limit)
        assert row["bytes"] == bytes_of(name)
        _assert_deviates(row, values)


def _assert_deviates(row: dict[str, Any], values: NDArray[np.int64]) -> None:
    count, total, squares = (int(row[name]) for name in ("count", "total_ns", "squares"))
    assert mean_ms(count, total) == pytest.approx(values.mean() / 1e6, rel=1e-12, abs=1e-12)
    if count > 1:
        assert stddev_ms(count, total, squares) == pytest.approx(values.std(ddof=1) / 1e6, rel=1e-9, abs=1e-9)


def test_bins_follow_one_another_and_contain_their_values(spark: SparkSession) -> None:
    small = range(5000)
    powers = [2**power + offset for power in range(12, 55) for offset in (-1, 0, 1, 2 ** (power - 2))]
    chance = np.random.default_rng(13).integers(0, 2**45, 500).tolist()
    low, high = counts.bin_edges()
    us = spark.createDataFrame(pa.table({"us": [-5000, -1, *small, *powers, *chance]}))

    rows = us.select("us", low.alias("low"), high.alias("high")).toArrow().to_pylist()

    for row in rows:
        if row["us"] < 0:
            assert (row["low"], row["high"]) == (0, 1), "what took less than nothing is in the first bin"
            continue
        assert row["low"] <= row["us"] < row["high"]
        assert row["low"] < 8 or row["high"] - row["low"] <= row["low"] / 4, "there are four bins to each doubling"
    edges = sorted({(row["low"], row["high"]) for row in rows if 0 <= row["us"] < 5000})
    assert edges[0][0] == 0
    assert [high for _, high in edges[:-1]] == [low for low, _ in edges[1:]]
    assert [high for low, high in edges if 8 <= low < 32] == [10, 12, 14, 16, 20, 24, 28, 32]
    by_edge: dict[int, set[int]] = {}
    for row in rows:
        by_edge.setdefault(row["low"], set()).add(row["high"])
    assert all(len(highs) == 1 for highs in by_edge.values())


def test_a_share_below_a_limit_is_of_whole_microseconds(spark: SparkSession) -> None:
    rows = spark.range(1).select(
        F.lit("a").alias("key"), F.explode(F.array(*map(F.lit, (999, 1000, 1001)))).alias("ns")
    )

    metrics = counts.metrics(counts.count(rows, ("key",), "ns"), ("key",), {}, limits_us=(1, 2)).collect()

    assert [(row["below_0"], row["below_1"]) for row in metrics] == [(1, 3)]
