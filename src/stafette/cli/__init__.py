"""The `stafette` command. Data goes to standard output, messages about it to standard error."""

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
"""Set by the scripts of `stafette completion` when a shell asks for completions of a line."""


def main() -> None:
    """Run the command; an error is one line and an exit code, or a traceback with --debug."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts an idle thread per processor
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
        _print_error(str(error))
        sys.exit(exit_code(error))
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError):
            _flush()  # reports it if the output itself fails
        _print_error(f"{type(error).__name__}: {' '.join(str(error).split())}; --debug shows where")
        sys.exit(ERROR)
    finally:
        _flush()
        gc.freeze()  # else Python collects garbage once more before it exits


def _open_streams() -> None:
    """Replace standard input and error if the caller closed them; a closed standard output is an error."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if sys.stdout is None:
        _print_error("standard output is closed; redirect it to /dev/null to discard the output")
        sys.exit(ERROR)
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.FileIO) and isinstance(sys.stdout, io.TextIOWrapper):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout.detach()  # else the old wrapper closes the file when it is collected
        sys.stdout = io.TextIOWrapper(_FlushingWriter(raw), encoding, errors, write_through=True)


class _FlushingWriter(io.BufferedWriter):
    """Standard output under PYTHONUNBUFFERED: a raw file silently loses the rest of an interrupted write."""

    def write(self, data: ReadableBuffer, /) -> int:
        count = super().write(data)
        self.flush()
        return count


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Take --debug out of the arguments, wherever it is before a --; after that it is text."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = arguments[:end]
    return [option for option in options if option != "--debug"] + arguments[end:], "--debug" in options


def _flush() -> None:
    """Flush while an error can still be reported; a closed pipe is not reported."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter, which flushes again
        if not isinstance(error, BrokenPipeError):
            _print_error(f"cannot write the output: {error.strerror}")
        sys.exit(ERROR)


def _print_error(detail: str) -> None:
    print(f"stafette: {detail}", file=sys.stderr)
