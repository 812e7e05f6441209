"""The fingerprint of a run's traces, which says whether its stored requests are up to date."""

from __future__ import annotations

import hashlib

FORMAT = 1
"""The version of stored requests; those of another version are made again."""


def fingerprint(kind: str, files: str) -> str:
    """The fingerprint of files that a kind of source reads."""
    return hashlib.sha256(f"{FORMAT}\n{kind}\n{files}".encode()).hexdigest()[:32]
