"""The shell without a terminal: a command per line, results alone on standard output, and an end at the first error."""

from __future__ import annotations

import traceback
from typing import TextIO

from stafette.cli.exits import INTERRUPTED
from stafette.cli.shell import show
from stafette.cli.shell.grammar import Usage
from stafette.cli.shell.shared import root
from stafette.cli.shell.shell_session import ShellSession, describe, exit_code
from stafette.cli.shell.state import State

LONE_DOT = "."


class Script:
    """Lines from a pipe or a file."""

    def __init__(self, state: State, lines: TextIO, *, keep_going: bool, debug: bool) -> None:
        self._session = ShellSession(state, self, root(), connect_when_needed=True)
        self._lines = lines
        self._number = 0
        self._keep_going = keep_going
        self._debug = debug

    def run(self) -> int:
        """Do what all lines say; returns the exit code."""
        code = 0
        try:
            while not self._session.state.over and (text := self._next()) is not None:
                code = self._run(text) or code
                if code and not self._keep_going:
                    break
        except KeyboardInterrupt:
            code = INTERRUPTED
        finally:
            self._session.leave()
        return code

    def _run(self, text: str) -> int:
        number = self._number
        try:
            self._session.run(text)
        except BrokenPipeError:  # of the command as a whole
            raise
        except Exception as error:
            if self._debug:
                traceback.print_exc(limit=-show.INNERMOST_FRAMES)
            show.warn(f"stafette: line {number}: {describe(error)}")
            return exit_code(error)
        finally:
            self._session.tell_time()
        return 0

    def _next(self) -> str | None:
        try:
            text = self._lines.readline()
        except UnicodeDecodeError as error:
            raise Usage(f"line {self._number + 1} is not UTF-8") from error
        self._number += 1
        return text.removesuffix("\n").removesuffix("\r") if text else None

    def ask_body(self) -> str:
        """The lines that follow, up to a lone dot."""
        lines: list[str] = []
        while (text := self._next()) is not None:
            if text == LONE_DOT:
                return "\n".join(lines)
            lines.append(text)
        raise Usage("the body does not end; end it with a line that is a lone dot")

    def ask_secret(self) -> str | None:
        """Nobody is there to be asked."""
        return None
