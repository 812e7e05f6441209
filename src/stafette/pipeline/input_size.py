"""How much there is to analyse. It is asked before Spark starts, because it decides how."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from stafette.runs.layout import ANALYSIS, REQUESTS

SMALL_BYTES = 32 * 1024**2
"""Of traces: up to so many, an analysis takes longer to start than to compute. A million requests of ours."""


def is_small(folders: Sequence[str | Path]) -> bool:
    """Whether there are so few bytes below folders of this machine that a quick session is best."""
    total = 0
    for folder in folders:
        if "://" in str(folder):
            return False
        for parent, names, entries in os.walk(folder):
            names[:] = [name for name in names if name not in (ANALYSIS, REQUESTS)]
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += Path(parent, entry).stat().st_size
            if total > SMALL_BYTES:
                return False
    return True
