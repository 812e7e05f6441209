"""How many Spark jobs an analysis makes: small inputs, which are most, cost little but these.

A bound is what was counted when the test was written, and two more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stafette.pipeline import job
from stafette.pipeline.ingest import Reader
from stafette.pipeline.options import Options
from stafette.pipeline.sources import delimited, mapping, mlmq, native
from stafette.pipeline.sources.base import Source
from tests.support.spark_frames import counted_jobs
from tests.support.synthetic_runs import make_run, requests

END = 1383684920569
FIRST = {"native": 47, "csv": 48, "mlmq": 45}
AGAIN = {"native": 15, "csv": 11, "mlmq": 11}
OTHER_WINDOWS = {"native": 39, "csv": 34, "mlmq": 34}


def native_runs(folder: Path) -> Reader:
    for number in (1, 2):
        make_run(folder / f"{number}", requests(500, seed=number, run=f"made-0001/{number}"))

    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        return native.read(spark, [folder], kept=kept)

    return read


def csv_files(folder: Path) -> Reader:
    lines = "".join(f"{1_700_000_000 + number},{number % 7}\n" for number in range(100))
    (folder / "a.csv").write_text(f"begin,took\n{lines}")
    how = mapping.parse('unit = "s"\nduration_unit = "ms"\n[columns]\nstart = "begin"\nduration = "took"\n')

    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        return delimited.read(spark, [folder], how, kept=kept)

    return read


def mlmq_logs(folder: Path) -> Reader:
    clients = "".join(f"4;{END + number};CSndReq#OK#LoginRequest:LoginResponse;\n" for number in range(100))
    brokers = "".join(f"4;{END + number};BRcvReq;C[9]\n" for number in range(100))
    (folder / "client.log").write_text(clients)
    (folder / "broker.log").write_text(brokers)

    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        return mlmq.read(spark, [folder], kept=kept)

    return read


@pytest.mark.parametrize(("kind", "source"), [("native", native_runs), ("csv", csv_files), ("mlmq", mlmq_logs)])
def test_an_analysis_of_a_small_input_makes_few_jobs(
    spark: SparkSession, tmp_path: Path, kind: str, source: Callable[[Path], Reader]
) -> None:
    read = source(tmp_path)

    counts = []
    for number, window_s in enumerate((1.0, 1.0, 2.0)):
        with counted_jobs(spark, f"{kind} {number}") as jobs:
            job.analyze(spark, read, requests=f"{tmp_path}/requests", options=Options(window_s=window_s))
        counts.append(len(jobs))

    assert 0 < counts[0] <= FIRST[kind]
    assert 0 < counts[1] <= AGAIN[kind]
    assert 0 < counts[2] <= OTHER_WINDOWS[kind]
