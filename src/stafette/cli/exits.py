"""Exit codes: 0 ok, 1 error, 2 usage, 3 cannot connect, 4 not found or empty, 5 timed out, 99 a threshold failed."""

from __future__ import annotations

from stafette import errors

ERROR = 1
CANNOT_CONNECT = 3
NOT_FOUND = 4
TIMED_OUT = 5

_BY_ERROR = {
    errors.Unavailable: CANNOT_CONNECT,
    errors.ServerFull: CANNOT_CONNECT,
    errors.QueueNotFound: NOT_FOUND,
    errors.ClientNotFound: NOT_FOUND,
    errors.RequestTimeout: TIMED_OUT,
}


def exit_code(error: errors.StafetteError) -> int:
    """The exit code that an error ends the command with."""
    return _BY_ERROR.get(type(error), ERROR)
