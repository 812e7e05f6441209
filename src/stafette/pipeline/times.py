"""The times of runs, as a small table to join requests with."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.requests import run_code
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import small

COLUMNS = ("load_start", "load_end", "measured_start", "measured_end", "window_ns")


def frame(spark: SparkSession, runs: Sequence[RunTimes]) -> DataFrame:
    """Load, measured window and length of windows by run code."""
    rows = [
        (run.run, run.load.start_ns, run.load.end_ns, run.measured.start_ns, run.measured.end_ns, run.window_ns)
        for run in runs
    ]
    schema = ", ".join(["run string", *(f"{name} long" for name in COLUMNS)])
    return small(spark, rows, schema).select(run_code().alias("run_code"), "run", *COLUMNS)


def join(rows: DataFrame, times: DataFrame) -> DataFrame:
    """Rows with the times of their runs, without rows of other runs."""
    return rows.join(F.broadcast(times.select("run_code", *COLUMNS)), "run_code")


def measured(moment: str) -> Column:
    """Whether a moment is in the measured window."""
    return (F.col(moment) >= F.col("measured_start")) & (F.col(moment) < F.col("measured_end"))


def loaded(moment: str) -> Column:
    """Whether a moment is in the load."""
    return (F.col(moment) >= F.col("load_start")) & (F.col(moment) < F.col("load_end"))


def window(moment: str) -> Column:
    """The index, from 0, of the window of a moment in the load."""
    return F.expr(f"({moment} - load_start) div window_ns")
