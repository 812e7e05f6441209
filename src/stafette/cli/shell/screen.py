"""The shell on a terminal: prompt, completion, history and toolbar; Ctrl-C stops only the running command."""

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

from stafette.cli.broker_link import advise_start
from stafette.cli.exits import NoMessage
from stafette.cli.shell import show
from stafette.cli.shell.command_history import history_file, open_history
from stafette.cli.shell.line_completion import complete
from stafette.cli.shell.script import END_OF_BODY
from stafette.cli.shell.shared import root
from stafette.cli.shell.shell_session import ShellSession, describe
from stafette.cli.shell.state import State, prompt, toolbar
from stafette.errors import StafetteError

TICK_SECONDS = 1.0
"""How often the toolbar updates the time left of a lease."""


class NothingSent(StafetteError):
    """The person cancelled a body with Ctrl-C."""


class Screen:
    """Runs a session with a person at a terminal."""

    def __init__(self, state: State, *, debug: bool) -> None:
        self._debug = debug
        self._session = ShellSession(state, self, root())
        # With standard output in a file, the prompt is still on the terminal.
        self._output = None if sys.stdout.isatty() else create_output(always_prefer_tty=True)
        self._prompt: PromptSession[str] = PromptSession(
            output=self._output,
            message=lambda: prompt(state),
            history=open_history(history_file()),
            completer=_Completer(self._session),
            complete_while_typing=False,
            complete_in_thread=True,  # completion of names asks the broker
            bottom_toolbar=lambda: toolbar(state),
            refresh_interval=TICK_SECONDS,
            enable_suspend=True,
        )

    def run(self) -> int:
        """Run commands until the person leaves; returns the exit code."""
        self._report_errors(self._start)
        while not self._session.state.is_leaving:
            self._report_errors(self._session.drop_lost_lease)
            try:
                text = self._prompt.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            self._report_errors(lambda text=text: self._session.run(text))  # type: ignore[misc]
            self._report_errors(self._session.print_time)
        self._report_errors(self._session.leave)
        return 0

    def _start(self) -> None:
        with advise_start():
            self._session.connect()
        show.remark("`help` lists the commands, Ctrl-D leaves the shell")

    def _report_errors(self, work: Callable[[], None]) -> None:
        """Call `work`; print an error as one line, and continue."""
        try:
            work()
        except (KeyboardInterrupt, typer.Abort):
            show.result("cancelled")
        except NoMessage as error:
            show.result(describe(error))
        except Exception as error:
            if self._debug:
                traceback.print_exc(limit=-show.INNERMOST_FRAMES)
            show.warn(f"error: {describe(error)}")

    def ask_body(self) -> str:
        """Read lines up to a single dot or Ctrl-D; Ctrl-C cancels."""
        show.remark("type the body, and end it with a line that has only a dot:")
        session: PromptSession[str] = PromptSession(message="| ", history=DummyHistory(), output=self._output)
        lines: list[str] = []
        while True:
            try:
                text = session.prompt()
            except EOFError:
                return "\n".join(lines)
            except KeyboardInterrupt:
                raise NothingSent("nothing is sent") from None
            for line in text.split("\n"):  # several, if they were pasted
                if line == END_OF_BODY:
                    return "\n".join(lines)
                lines.append(line)

    def ask_secret(self) -> str | None:
        """Ask for a secret, which is not shown."""
        session: PromptSession[str] = PromptSession(
            message="secret: ", is_password=True, history=DummyHistory(), output=self._output
        )
        try:
            return session.prompt()
        except (EOFError, KeyboardInterrupt):
            return None


class _Completer(Completer):
    """Completes commands that are possible now, options and names."""

    def __init__(self, session: ShellSession) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """The completions at the cursor."""
        prefix, candidates = complete(document.text_before_cursor, self._session)
        for text in candidates:
            yield Completion(text, start_position=-len(prefix), display=text.strip())
