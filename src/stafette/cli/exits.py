"""Exit codes: 0 ok, 1 error, 2 usage, 3 cannot connect, 4 not found or empty, 5 timed out, 99 a threshold failed,
130 interrupted with Ctrl-C."""

from __future__ import annotations

import sys

from stafette import errors

ERROR = 1
CANNOT_CONNECT = 3
NOT_FOUND = 4
TIMED_OUT = 5
THRESHOLD = 99
INTERRUPTED = 130

_CODES_BY_ERROR = {
    errors.Unavailable: CANNOT_CONNECT,
    errors.ServerFull: CANNOT_CONNECT,
    errors.QueueNotFound: NOT_FOUND,
    errors.ClientNotFound: NOT_FOUND,
    errors.RequestTimeout: TIMED_OUT,
}


class NoMessage(errors.StafetteError):
    """There was no message, or none arrived in time: not a failure, but scripts see it in the exit code."""

    def __init__(self, queue: str | None, wait: float | None) -> None:
        self.queue = queue
        self.wait = wait
        self.exit_code = TIMED_OUT if wait else NOT_FOUND

    def __str__(self) -> str:
        if self.wait:
            return f"no message arrived in {self.queue} within {self.wait:g} seconds"
        return f"there is no message for you in {self.queue}"


def exit_code(error: errors.StafetteError) -> int:
    """The exit code for an error."""
    if isinstance(error, NoMessage):
        return error.exit_code
    series = sys.modules.get("stafette.lab.series.series_folder")  # only the commands of the laboratory load it
    if series is not None and isinstance(error, series.SeriesNotFound):
        return NOT_FOUND
    return next((code for kind, code in _CODES_BY_ERROR.items() if isinstance(error, kind)), ERROR)
