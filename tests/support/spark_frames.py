"""How tests look at what a source gives."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from stafette.pipeline.sources.base import Source

PYTHON_NODES = ("PythonUDF", "BatchEvalPython", "ArrowEvalPython", "MapInPandas", "MapInArrow", "FlatMapGroups")


def rows(source: Source, *columns: str) -> list[tuple[Any, ...]]:
    """The rows, in order."""
    return sorted(map(tuple, source.rows.select(*columns).collect()), key=repr)


def rejects(source: Source, folder: Path) -> list[tuple[str, int, str, str]]:
    """The rejects, with files by their path in the folder, in order."""
    found = [(row["file"], row["line"], row["text"], row["reason"]) for row in source.rejects.collect()]
    return sorted((str(Path(file).relative_to(folder)), *rest) for file, *rest in found)


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
