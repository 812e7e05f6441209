"""The shell on a terminal: prompt, completion, history and toolbar; Ctrl-C stops what is under way and nothing else."""

from __future__ import annotations

import asyncio
import signal
import sys
import traceback
from collections.abc import AsyncGenerator, Coroutine, Iterable
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import DummyHistory
from prompt_toolkit.output import create_output

from stafette.cli.broker_link import explained
from stafette.cli.shell import show
from stafette.cli.shell.completion import Names, slot
from stafette.cli.shell.connecting import connect_to
from stafette.cli.shell.conversation import Conversation, sentence
from stafette.cli.shell.history import history_file, open_history
from stafette.cli.shell.on_leases import drop_if_over
from stafette.cli.shell.on_messages import Nothing
from stafette.cli.shell.script import LONE_DOT
from stafette.cli.shell.state import State, prompt, toolbar
from stafette.errors import StafetteError

TICK_SECONDS = 1.0
"""How often the toolbar counts a lease down."""


class NothingDone(StafetteError):
    """The person thought better of it."""


class Screen:
    """A person at a terminal."""

    def __init__(self, state: State, *, debug: bool) -> None:
        self._state = state
        self._debug = debug
        self._talk = Conversation(state, self)
        self._doing: asyncio.Task[None] | None = None
        # A result may go into a file while the conversation stays on the terminal.
        self._output = None if sys.stdout.isatty() else create_output(always_prefer_tty=True)
        self._session: PromptSession[str] = PromptSession(
            output=self._output,
            message=lambda: prompt(state),
            history=open_history(history_file()),
            completer=_Completer(state),
            complete_while_typing=False,
            bottom_toolbar=lambda: toolbar(state),
            refresh_interval=TICK_SECONDS,
            enable_suspend=True,
        )

    async def run(self) -> int:
        """Talk until the person leaves."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        await self._attend(self._start())
        while not self._state.over:
            drop_if_over(self._state)
            try:
                text = await self._session.prompt_async(handle_sigint=False)
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            await self._attend(self._talk.do(text))
            self._talk.tell_time()
        await self._attend(self._talk.end())
        return 0

    async def _start(self) -> None:
        with explained():
            await connect_to(self._talk)
        show.remark("`help` lists what is possible, Ctrl-D leaves")

    def _interrupt(self) -> None:
        if self._doing is not None:
            self._doing.cancel()

    async def _attend(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for something to be done; whatever goes wrong is a line, and the conversation goes on."""
        self._doing = asyncio.create_task(work)
        try:
            await self._doing
        except asyncio.CancelledError:
            show.result("cancelled")
        except Nothing as nothing:
            show.result(str(nothing))
        except Exception as error:
            if self._debug:
                traceback.print_exc()
            show.warn(f"error: {sentence(error)}")
        finally:
            self._doing = None

    async def ask_body(self) -> str:
        """Lines, up to a lone dot or Ctrl-D; Ctrl-C sends nothing."""
        show.remark("the body, up to a line with a lone dot:")
        session: PromptSession[str] = PromptSession(message="| ", history=DummyHistory(), output=self._output)
        lines: list[str] = []
        while True:
            try:
                typed = await session.prompt_async(handle_sigint=False)
            except EOFError:
                return "\n".join(lines)
            except KeyboardInterrupt:
                raise NothingDone("nothing is sent") from None
            for line in typed.split("\n"):  # several, when they were pasted
                if line == LONE_DOT:
                    return "\n".join(lines)
                lines.append(line)

    async def ask_secret(self) -> str | None:
        """A secret, typed blindly."""
        session: PromptSession[str] = PromptSession(
            message="secret: ", is_password=True, history=DummyHistory(), output=self._output
        )
        try:
            return await session.prompt_async(handle_sigint=False)
        except (EOFError, KeyboardInterrupt):
            return None


class _Completer(Completer):
    """Completes with what the state allows; asks the broker for names."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._names = Names(state)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Without the broker; prompt_toolkit wants this to exist."""
        place = slot(document.text_before_cursor, self._state)
        return [_completion(text, place.typed) for text in place.candidates()]

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """All that fits at the cursor."""
        place = slot(document.text_before_cursor, self._state)
        for text in place.candidates(await self._names.of(place.names)):
            yield _completion(text, place.typed)


def _completion(text: str, typed: str) -> Completion:
    return Completion(text, start_position=-len(typed), display=text.strip())


def run(state: State, *, debug: bool) -> int:
    """Talk with the person at the terminal."""

    async def talk() -> int:
        return await Screen(state, debug=debug).run()

    return asyncio.run(talk())
