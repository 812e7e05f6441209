"""The processes that belong to a folder."""

from __future__ import annotations

from pathlib import Path

import psutil


def processes_of(folder: Path) -> list[psutil.Process]:
    """Living processes that name the folder in their command, or work in it."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        told = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(folder) in part for part in told):
            found.append(process)
    return found
