"""The default analysis of a folder of runs, from its traces to its report, with nothing to choose."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from stafette.errors import InvalidRequest, StafetteError
from stafette.pipeline import java
from stafette.runs.layout import ANALYSIS


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


def report(folder: Path, say: Callable[[str], None]) -> Path:
    """Analyse a folder of runs; where the report is."""
    if (reason := why_not()) is not None:
        raise InvalidRequest(reason)
    from stafette.pipeline import job, session, store  # they bring Spark
    from stafette.pipeline.sources import native
    from stafette.report import page  # and this one Plotly

    say("Spark starts")
    spark = session.start(quick=session.is_small([folder]))
    try:
        place = folder / ANALYSIS
        job.analyze(
            spark,
            lambda spark, *, kept: native.read(spark, [folder], kept=kept),
            requests=store.default_root(str(folder), str(place)),
            out=place,
            progress=say,
        )
    finally:
        spark.stop()
    return page.write(place)
