"""What a child of the job queue sends: events, as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

INTERRUPTED = 130
"""The exit code of a child that was interrupted."""


def take_output() -> int:
    """The descriptor for events. What anything else prints, Java for instance, goes to standard error from now on."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


def send_event(out: int, kind: str, **fields: Any) -> None:
    """Send an event to the web process, if it still reads."""
    data = json.dumps({"kind": kind, **fields}).encode() + b"\n"
    try:
        while data:
            data = data[os.write(out, data) :]
    except BrokenPipeError:
        pass  # the end of our input follows
