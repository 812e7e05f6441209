"""The environment of processes that work in a folder of runs."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Ours, without our settings, and with `PYTHONSAFEPATH`.

    Without that, Python would import a module from the working folder before the module of that name in our libraries,
    and an archive decides what the folders in there are called.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")}
    return inherited | {"PYTHONSAFEPATH": "1"}
