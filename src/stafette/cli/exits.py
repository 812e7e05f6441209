"""Exit codes: 0 ok, 1 error, 2 usage, 3 cannot connect, 4 not found or empty, 5 timed out, 99 a threshold failed,
130 broken off with Ctrl-C."""

from __future__ import annotations

import sys

from stafette import errors

ERROR = 1
CANNOT_CONNECT = 3
NOT_FOUND = 4
TIMED_OUT = 5
THRESHOLD = 99
INTERRUPTED = 130

_BY_ERROR = {
    errors.Unavailable: CANNOT_CONNECT,
    errors.ServerFull: CANNOT_CONNECT,
    errors.QueueNotFound: NOT_FOUND,
    errors.ClientNotFound: NOT_FOUND,
    errors.RequestTimeout: TIMED_OUT,
}


def exit_code(error: errors.StafetteError) -> int:
    """The exit code that an error ends the command with."""
    lab = sys.modules.get("stafette.lab.series")  # commands that do not need the laboratory do not load it
    if lab is not None and isinstance(error, lab.SeriesNotFound):
        return NOT_FOUND
    return next((code for kind, code in _BY_ERROR.items() if isinstance(error, kind)), ERROR)
