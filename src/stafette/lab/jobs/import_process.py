"""Imports one series for the console, in a process that may be ended: an archive may take long, or much memory."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from stafette.errors import StafetteError
from stafette.lab.child_environment import limit_memory
from stafette.lab.jobs.job_events import send_event, take_output
from stafette.lab.series import archive


class ImportOrder(msgspec.Struct):
    """What is imported, and where to."""

    file: str
    runs: str


def main() -> None:
    """Import the series of the one order."""
    limit_memory()
    out = take_output()
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ImportOrder)
    try:
        series = archive.unpack(Path(order.file), Path(order.runs))
    except StafetteError as error:
        send_event(out, "end", refusal=error.sentence)
    else:
        send_event(out, "end", series=series.name)


if __name__ == "__main__":
    main()
