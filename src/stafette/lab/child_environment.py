"""What surrounds processes of the laboratory: their environment, and how much memory they may take."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

MOST_MEMORY = 2**30
"""Beyond what the libraries take."""


def environment() -> dict[str, str]:
    """Ours, without our settings, and with `PYTHONSAFEPATH`.

    Without that, Python would import a module from the working folder before the module of that name in our libraries,
    and an archive decides what the folders in there are called.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")}
    return inherited | {"PYTHONSAFEPATH": "1"}


def limit_memory() -> None:
    """Let this process take no more than `MOST_MEMORY` from now on; beyond, it gets a MemoryError."""
    with contextlib.suppress(OSError, ValueError):  # a system without /proc, or with a lower limit
        addresses = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (addresses + MOST_MEMORY, addresses + MOST_MEMORY))
