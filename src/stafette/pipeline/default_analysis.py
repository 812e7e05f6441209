"""The default analysis of a folder of runs, from its traces to its report, with nothing to choose."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stafette.errors import InvalidRequest, StafetteError
from stafette.pipeline import input_size, java
from stafette.runs.layout import ANALYSIS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def why_not() -> str | None:
    """What keeps this machine from analysing; nothing when it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "the analysis needs Spark; install stafette[lab]"
    if os.environ.get(java.REMOTE):
        return None
    try:
        java.home()
    except StafetteError as error:
        return str(error)
    return None


def start_spark(say: Callable[[str], None], *, quick: bool) -> SparkSession:
    """Start Spark where the environment says, or here; `quick` is for small inputs."""
    if (reason := why_not()) is not None:
        raise InvalidRequest(reason)
    from stafette.pipeline import session  # brings Spark

    say("Spark starts")
    return session.start(quick=quick)


def report(folder: Path, say: Callable[[str], None]) -> Path:
    """Analyse a folder of runs with a Spark of its own; where the report is."""
    spark = start_spark(say, quick=input_size.is_small([folder]))
    try:
        return report_with(spark, folder, say)
    finally:
        spark.stop()


def report_with(spark: SparkSession, folder: Path, say: Callable[[str], None]) -> Path:
    """The same with a Spark that runs already."""
    from stafette.pipeline import job, store
    from stafette.pipeline.sources import native
    from stafette.report import page  # brings Plotly

    out = folder / ANALYSIS
    job.analyze(
        spark,
        lambda spark, *, kept: native.read(spark, [folder], kept=kept),
        requests=store.default_root(str(folder), str(out)),
        out=out,
        progress=say,
    )
    return page.write(out)
