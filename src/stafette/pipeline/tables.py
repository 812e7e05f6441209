"""The name that `stafette.report.result_files.load` had before; it works for one more version."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa

from stafette.report import result_files


def load(out: Path) -> dict[str, pa.Table]:
    """All result tables of an analysis, by name."""
    warnings.warn(
        "stafette.pipeline.tables.load is now stafette.report.result_files.load", DeprecationWarning, stacklevel=2
    )
    return result_files.load(out)
