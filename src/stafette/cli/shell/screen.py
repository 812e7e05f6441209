"""The shell on a terminal: prompt, completion, history and toolbar; Ctrl-C stops what is running and nothing else."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import DummyHistory
from prompt_toolkit.output import create_output

from stafette.cli.broker_link import explained
from stafette.cli.exits import NoMessage
from stafette.cli.shell import show
from stafette.cli.shell.command_history import history_file, open_history
from stafette.cli.shell.line_completion import complete
from stafette.cli.shell.script import LONE_DOT
from stafette.cli.shell.shared import root
from stafette.cli.shell.shell_session import ShellSession, describe
from stafette.cli.shell.state import State, prompt, toolbar
from stafette.errors import StafetteError

TICK_SECONDS = 1.0
"""How often the toolbar counts a lease down."""


class NothingSent(StafetteError):
    """The person changed their mind."""


class Screen:
    """A person at a terminal."""

    def __init__(self, state: State, *, debug: bool) -> None:
        self._debug = debug
        self._session = ShellSession(state, self, root())
        # A result may go into a file while the conversation stays on the terminal.
        self._output = None if sys.stdout.isatty() else create_output(always_prefer_tty=True)
        self._prompt: PromptSession[str] = PromptSession(
            output=self._output,
            message=lambda: prompt(state),
            history=open_history(history_file()),
            completer=_Completer(self._session),
            complete_while_typing=False,
            complete_in_thread=True,  # a broker is asked for names
            bottom_toolbar=lambda: toolbar(state),
            refresh_interval=TICK_SECONDS,
            enable_suspend=True,
        )

    def run(self) -> int:
        """Talk until the person leaves."""
        self._attend(self._start)
        while not self._session.state.over:
            self._attend(self._session.drop_lost_lease)
            try:
                text = self._prompt.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            self._attend(lambda text=text: self._session.run(text))  # type: ignore[misc]
            self._attend(self._session.tell_time)
        self._attend(self._session.leave)
        return 0

    def _start(self) -> None:
        with explained():
            self._session.connect()
        show.remark("`help` lists what is possible, Ctrl-D leaves")

    def _attend(self, work: Callable[[], None]) -> None:
        """Do something; whatever goes wrong is a line, and the conversation goes on."""
        try:
            work()
        except (KeyboardInterrupt, typer.Abort):
            show.result("cancelled")
        except NoMessage as nothing:
            show.result(describe(nothing))
        except Exception as error:
            if self._debug:
                traceback.print_exc(limit=-show.INNERMOST_FRAMES)
            show.warn(f"error: {describe(error)}")

    def ask_body(self) -> str:
        """Lines, up to a lone dot or Ctrl-D; Ctrl-C sends nothing."""
        show.remark("the body, up to a line with a lone dot:")
        session: PromptSession[str] = PromptSession(message="| ", history=DummyHistory(), output=self._output)
        lines: list[str] = []
        while True:
            try:
                typed = session.prompt()
            except EOFError:
                return "\n".join(lines)
            except KeyboardInterrupt:
                raise NothingSent("nothing is sent") from None
            for line in typed.split("\n"):  # several, when they were pasted
                if line == LONE_DOT:
                    return "\n".join(lines)
                lines.append(line)

    def ask_secret(self) -> str | None:
        """A secret, typed blindly."""
        session: PromptSession[str] = PromptSession(
            message="secret: ", is_password=True, history=DummyHistory(), output=self._output
        )
        try:
            return session.prompt()
        except (EOFError, KeyboardInterrupt):
            return None


class _Completer(Completer):
    """Completes with what is possible now."""

    def __init__(self, session: ShellSession) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """All that fits at the cursor."""
        typed, candidates = complete(document.text_before_cursor, self._session)
        for text in candidates:
            yield Completion(text, start_position=-len(typed), display=text.strip())
