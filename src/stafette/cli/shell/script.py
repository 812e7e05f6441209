"""The shell without a terminal: a command per line, results alone on standard output, and an end at the first error."""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import TextIO

from stafette.cli.exits import INTERRUPTED
from stafette.cli.shell import show
from stafette.cli.shell.conversation import Conversation, exit_code, sentence
from stafette.cli.shell.grammar import Usage
from stafette.cli.shell.state import State

LONE_DOT = "."


class Script:
    """Lines from a pipe or a file."""

    def __init__(self, state: State, lines: TextIO, *, keep_going: bool, debug: bool) -> None:
        self._state = state
        self._lines = lines
        self._number = 0
        self._keep_going = keep_going
        self._debug = debug
        self._code = 0

    def run(self) -> int:
        """Do what all lines say; returns the exit code.

        The event loop runs only while a command does: Ctrl-C ends a wait for the next line at once.
        """
        talk = Conversation(self._state, self, connect_when_needed=True)
        with asyncio.Runner() as runner:
            try:
                while not self._state.over and (text := self._next()) is not None:
                    self._code = self._do(runner, talk, text) or self._code
                    if self._code and not self._keep_going:
                        break
            except KeyboardInterrupt:
                self._code = INTERRUPTED
            finally:
                runner.run(talk.end())
        return self._code

    def _do(self, runner: asyncio.Runner, talk: Conversation, text: str) -> int:
        started_at = self._number
        try:
            runner.run(talk.do(text))
        except BrokenPipeError:  # of the command as a whole
            raise
        except Exception as error:
            if self._debug:
                traceback.print_exc()
            show.warn(f"stafette: line {started_at}: {sentence(error)}")
            return exit_code(error)
        finally:
            talk.tell_time()
        return 0

    def _next(self) -> str | None:
        try:
            text = self._lines.readline()
        except UnicodeDecodeError as error:
            raise Usage(f"line {self._number + 1} is not UTF-8") from error
        self._number += 1
        return text.removesuffix("\n").removesuffix("\r") if text else None

    async def ask_body(self) -> str:
        """The lines that follow, up to a lone dot."""
        lines: list[str] = []
        while (text := self._next()) is not None:
            if text == LONE_DOT:
                return "\n".join(lines)
            lines.append(text)
        raise Usage("the body does not end; end it with a line that is a lone dot")

    async def ask_secret(self) -> str | None:
        """Nobody is there to be asked."""
        return None


def run(state: State, *, keep_going: bool, debug: bool) -> int:
    """Do what standard input says."""
    return Script(state, sys.stdin, keep_going=keep_going, debug=debug).run()
