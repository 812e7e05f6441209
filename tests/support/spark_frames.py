"""How tests look at what a source gives."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from stafette.pipeline import job
from stafette.pipeline.job import Analysis
from stafette.pipeline.options import Options
from stafette.pipeline.sources import native
from stafette.pipeline.sources.base import Source

PYTHON_NODES = ("PythonUDF", "BatchEvalPython", "ArrowEvalPython", "MapInPandas", "MapInArrow", "FlatMapGroups")


def rows(source: Source, *columns: str) -> list[tuple[Any, ...]]:
    """The rows, in order."""
    return sorted(map(tuple, source.rows.select(*columns).collect()), key=repr)


def rejects(source: Source, folder: Path) -> list[tuple[str, int, str, str]]:
    """The rejects, with files by their path in the folder, in order."""
    found = [(row["file"], row["line"], row["text"], row["reason"]) for row in source.rejects.collect()]
    return sorted((str(Path(file).relative_to(folder)), *rest) for file, *rest in found)


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
