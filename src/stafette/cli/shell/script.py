"""The shell without a terminal: a command per line, only results on standard output, an end at the first error."""

from __future__ import annotations

import traceback
from typing import TextIO

from stafette.cli.exits import INTERRUPTED
from stafette.cli.shell import show
from stafette.cli.shell.grammar import Usage
from stafette.cli.shell.shared import root
from stafette.cli.shell.shell_session import ShellSession, describe, exit_code
from stafette.cli.shell.state import State

END_OF_BODY = "."


class Script:
    """Runs a session with lines from a pipe or a file."""

    def __init__(self, state: State, lines: TextIO, *, keep_going: bool, debug: bool) -> None:
        self._session = ShellSession(state, self, root(), connect_on_demand=True)
        self._lines = lines
        self._number = 0
        self._keep_going = keep_going
        self._debug = debug

    def run(self) -> int:
        """Run all lines; returns the exit code."""
        code = 0
        try:
            while not self._session.state.is_leaving and (text := self._next_line()) is not None:
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
        except BrokenPipeError:  # main() handles it
            raise
        except Exception as error:
            if self._debug:
                traceback.print_exc(limit=-show.INNERMOST_FRAMES)
            show.warn(f"stafette: line {number}: {describe(error)}")
            return exit_code(error)
        finally:
            self._session.print_time()
        return 0

    def _next_line(self) -> str | None:
        try:
            text = self._lines.readline()
        except UnicodeDecodeError as error:
            raise Usage(f"line {self._number + 1} is not UTF-8") from error
        self._number += 1
        return text.removesuffix("\n").removesuffix("\r") if text else None

    def ask_body(self) -> str:
        """Read the lines that follow, up to a single dot."""
        lines: list[str] = []
        while (text := self._next_line()) is not None:
            if text == END_OF_BODY:
                return "\n".join(lines)
            lines.append(text)
        raise Usage("the body has no end; end it with a line that has only a dot")

    def ask_secret(self) -> str | None:
        """None: there is no person to ask."""
        return None
