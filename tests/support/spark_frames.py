"""How tests look at what a source gives, and at what an analysis makes of it."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from stafette.pipeline import job
from stafette.pipeline.ingest import ingest
from stafette.pipeline.job import Analysis
from stafette.pipeline.options import Options
from stafette.pipeline.sources import native
from stafette.pipeline.sources.base import Run, Source

PYTHON_NODES = ("PythonUDF", "BatchEvalPython", "ArrowEvalPython", "MapInPandas", "MapInArrow", "FlatMapGroups")


def rows(source: Source, *columns: str) -> list[tuple[Any, ...]]:
    """The rows, in order."""
    return sorted(map(tuple, source.rows.select(*columns).collect()), key=repr)


@dataclass(frozen=True)
class Added:
    """A source whose requests were written, as every analysis begins."""

    requests: list[dict[str, Any]]
    """With `run`, and for each tier `client_names` or `broker_names`: tier, operation and outcome; null as the code."""
    rejects: list[tuple[str, int, str, str]]
    runs: list[Run]


def added(source: Source) -> Added:
    """The source, added to a folder that is gone afterwards; bad files are left out, as an analysis leaves them out."""
    with tempfile.TemporaryDirectory() as root:
        asked = ingest(source.rows.sparkSession, lambda session, *, kept: source, root)
        bad = [(each.file, 0, "", each.reason) for each in asked.source.bad]
        return Added(
            [_named(row, asked.names.runs, asked.names.codes) for row in asked.frame.toArrow().to_pylist()],
            [*((row["file"], row["line"], row["text"], row["reason"]) for row in asked.rejects.collect()), *bad],
            list(asked.runs),
        )


def _named(row: dict[str, Any], runs: Mapping[int, str], codes: Mapping[int, Any]) -> dict[str, Any]:
    names = {f"{tier}_names": codes.get(row[f"{tier}_code"]) for tier in ("client", "broker")}
    return row | {"run": runs[row["run_code"]]} | names


def rejects(source: Source, folder: Path) -> list[tuple[str, int, str, str]]:
    """The rejects of a source whose files can all be read, with files by their path in the folder, in order."""
    rejected = [(row["file"], row["line"], row["text"], row["reason"]) for row in source.rejects.collect()]
    return below(rejected, folder)


def below(rejected: list[tuple[str, int, str, str]], folder: Path) -> list[tuple[str, int, str, str]]:
    """Rejects with files by their path in the folder, in order."""
    return sorted((str(Path(file).relative_to(folder)), *rest) for file, *rest in rejected)  # type: ignore[misc]


def analyzed_runs(
    spark: SparkSession,
    folder: Path | str,
    *,
    out: Path | None = None,
    requests: str | None = None,
    options: Options | None = None,
) -> Analysis:
    """The analysis of a folder of runs, whose requests are kept in it."""
    return job.analyze(
        spark,
        lambda session, *, kept: native.read(session, [folder], kept=kept),
        requests=requests or f"{folder}/requests",
        out=out,
        options=options,
    )


@contextmanager
def counted_jobs(spark: SparkSession, group: str) -> Iterator[list[int]]:
    """The numbers of the Spark jobs that the block starts."""
    jobs: list[int] = []
    context = spark.sparkContext
    context.setJobGroup(group, group)
    try:
        yield jobs
    finally:
        jobs += context.statusTracker().getJobIdsForGroup(group)
        context.setJobGroup("", "")


def final_plan(frame: DataFrame) -> str:
    """How the frame was computed in the end; it must have been."""
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain()
    return plan.getvalue().partition("Initial Plan")[0]


def runs_python(frame: DataFrame) -> bool:
    """Whether a Python function would run for each row."""
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain(True)
    assert "Optimized Logical Plan" in plan.getvalue()
    return any(node in plan.getvalue() for node in PYTHON_NODES)


def assert_no_python(frame: DataFrame) -> None:
    plan = frame._jdf.queryExecution().toString()
    assert "Aggregate" in plan or "Join" in plan
    for node in ("PythonUDF", "BatchEvalPython", "ArrowEvalPython", "MapInPandas", "MapInArrow", "PythonMap"):
        assert node not in plan
