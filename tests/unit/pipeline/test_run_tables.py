"""The summary of a run, from its windows: both intervals are over the same number of batches."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stafette.pipeline.run_tables import Group, Names, Series, summary
from stafette.pipeline.run_times import RunTimes
from stafette.runs.window import SECOND, Window
from stafette.statistics.intervals import BatchEstimate, batch_ratio

RUN = RunTimes("r", Window(0, 300 * SECOND), Window(0, 300 * SECOND))
GROUP = Group("r", "client", "send", "ok")
MILLISECOND = 1_000_000


def correlated(chance: np.random.Generator, mean: int) -> NDArray[np.int64]:
    """Values for each window, each depending on the one before."""
    noise = chance.normal(size=RUN.windows)
    for index in range(1, RUN.windows):
        noise[index] += 0.6 * noise[index - 1]
    return np.maximum(mean * (1 + noise / 20), 1).astype(np.int64)


def measured(seed: int) -> Series:
    chance = np.random.default_rng(seed)
    counts, answers = correlated(chance, 1_000), correlated(chance, 1_000)
    totals = counts * correlated(chance, 5 * MILLISECOND)
    zeros = np.zeros(RUN.windows, dtype=np.int64)
    percentiles = np.zeros((RUN.windows, 3), dtype=np.int64)
    return Series(np.arange(RUN.windows), counts, totals, zeros, percentiles, answers, counts, totals, answers)


def interval_of_mean(windows: Series, max_batches: int | None = None) -> BatchEstimate:
    return batch_ratio(windows.total_ns / MILLISECOND, windows.count.astype(float), 0.95, max_batches)


def interval_of_throughput(windows: Series, max_batches: int | None = None) -> BatchEstimate:
    return batch_ratio(windows.answers.astype(float), np.ones(RUN.windows), 0.95, max_batches)


@pytest.mark.parametrize("seed", range(20))
def test_both_intervals_are_over_the_same_number_of_batches(seed: int) -> None:
    windows = measured(seed)

    [row] = summary([], {GROUP: windows}, Names({}, {}), {"r": RUN}, {}, 0.95).to_pylist()

    for estimate_of, low, high in (
        (interval_of_mean, "mean_low_ms", "mean_high_ms"),
        (interval_of_throughput, "throughput_low", "throughput_high"),
    ):
        if row[low] is not None:
            expected = estimate_of(windows, row["interval_n"])
            assert expected.batches == row["interval_n"]
            assert (row[low], row[high]) == pytest.approx((expected.estimate.low, expected.estimate.high))


def test_alone_they_would_be_over_different_numbers() -> None:
    """Else the test above could not fail."""
    assert any(
        interval_of_mean(windows).batches != interval_of_throughput(windows).batches
        for windows in map(measured, range(20))
    )
