"""The `stafette` command. Data goes to standard output, everything said about it to standard error."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import TYPE_CHECKING

from stafette.cli.app import app
from stafette.cli.exits import ERROR, NoMessage, exit_code
from stafette.errors import StafetteError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["main"]

COMPLETE = "_STAFETTE_COMPLETE"
"""Set by the scripts of `stafette completion` when a shell wants to know how a line may go on."""


def main() -> None:
    """Run the command; an error is one sentence and an exit code, unless --debug asks for the traceback."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts one for each processor, idly
    _open_streams()
    arguments, debug = _without_debug(sys.argv[1:])
    if COMPLETE in os.environ:
        from stafette.cli.completion import prepare

        prepare()
    try:
        app(arguments)
    except StafetteError as error:
        if debug and not isinstance(error, NoMessage):
            raise
        _tell(str(error))
        sys.exit(exit_code(error))
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError):
            _flush()  # if it is the output that fails, this says so
        _tell(f"{type(error).__name__}: {' '.join(str(error).split())}; --debug shows where")
        sys.exit(ERROR)
    finally:
        _flush()
        gc.freeze()  # else Python would look through everything for what could be freed, and then end


def _open_streams() -> None:
    """Make do without what the caller closed; but data must have somewhere to go."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if sys.stdout is None:
        _tell("standard output is closed; redirect it to /dev/null to see nothing")
        sys.exit(ERROR)
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.FileIO) and isinstance(sys.stdout, io.TextIOWrapper):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout.detach()  # else it would close the file when it is forgotten
        sys.stdout = io.TextIOWrapper(_Whole(raw), encoding, errors, write_through=True)


class _Whole(io.BufferedWriter):
    """Standard output under PYTHONUNBUFFERED: raw, a write that a signal cuts short would lose its rest unnoticed."""

    def write(self, data: ReadableBuffer, /) -> int:
        written = super().write(data)
        self.flush()
        return written


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """--debug counts wherever it is, but after a -- it is somebody's text."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = arguments[:end]
    return [option for option in options if option != "--debug"] + arguments[end:], "--debug" in options


def _flush() -> None:
    """Write what is left while we can still say that it failed; a reader who has gone wants to hear nothing."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter, which flushes again
        if not isinstance(error, BrokenPipeError):
            _tell(f"cannot write the output: {error.strerror}")
        sys.exit(ERROR)


def _tell(sentence: str) -> None:
    print(f"stafette: {sentence}", file=sys.stderr)
