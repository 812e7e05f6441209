"""A person at a terminal: types, and looks at the screen until it shows what should be there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pexpect
import pyte

from tests.support.command_line import COMMAND, clean_environment
from tests.support.waiting import TIMEOUT_SECONDS

ROWS, COLUMNS = 60, 240  # wide, so that a sentence is a row

CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"


class _Screen(pyte.Screen):
    """A screen that answers when it is asked where its cursor is."""

    answer: Callable[[str], object]

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """One program on a screen of its own."""

    def __init__(self, program: pexpect.spawn[str]) -> None:
        self._program = program
        self._screen = _Screen(COLUMNS, ROWS)
        self._screen.answer = lambda text: program.send(text)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Condition()
        self.raw = b""
        self.over = False
        asyncio.get_running_loop().add_reader(program.child_fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._program.child_fd, 65536)
        except OSError:  # how a terminal says that nobody has it open any more
            data = b""
        self.raw += data
        if data:
            self._stream.feed(data)
        else:
            self.over = True
            asyncio.get_running_loop().remove_reader(self._program.child_fd)
        self._notifying = asyncio.ensure_future(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    @property
    def rows(self) -> list[str]:
        """What stands in each; only what was written is looked at, and most of a screen never is."""
        written = [self._screen.buffer[row] for row in range(ROWS)]
        return ["".join(row[column].data for column in range(max(row, default=-1) + 1)).rstrip() for row in written]

    @property
    def text(self) -> str:
        return "\n".join(self.rows).rstrip()

    @property
    def line(self) -> str:
        """The row that the cursor is in."""
        return self.rows[self._screen.cursor.y]

    def type(self, text: str) -> None:
        self._program.send(text)

    async def until(self, seen: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), self._changed:
                await self._changed.wait_for(seen)
        except TimeoutError:
            raise AssertionError(f"waited in vain; the screen is\n{self.text}") from None

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def prompts(self, prompt: str = ">") -> None:
        """Wait for the prompt, with nothing typed behind it."""
        await self.until(lambda: self.line.endswith(prompt) and self._screen.cursor.x == len(self.line) + 1)

    async def run(self, command: str) -> list[str]:
        """Type a command and wait for the next prompt; returns the rows between."""
        self.type(command)
        await self.until(lambda: self.line.endswith(f"> {command.rstrip()}"))
        self.type("\r")
        return await self.output(command)

    async def output(self, command: str) -> list[str]:
        """What stands between the last prompt with this command and the next."""

        def begun() -> int:
            rows = self.rows[: self._screen.cursor.y]
            return max((number for number, row in enumerate(rows) if row.endswith(f"> {command}")), default=-1)

        await self.until(
            lambda: begun() >= 0 and self.line.endswith(">") and self._screen.cursor.x == len(self.line) + 1
        )
        return self.rows[begun() + 1 : self._screen.cursor.y]

    async def ends(self) -> int:
        """Wait until the program has ended; returns its exit code."""
        await self.until(lambda: self.over)
        await asyncio.to_thread(self._program.wait)
        assert self._program.exitstatus is not None
        return self._program.exitstatus


@asynccontextmanager
async def terminal(*arguments: str, **environment: str) -> AsyncIterator[Terminal]:
    """`stafette` on a terminal, ended with the test."""
    program = pexpect.spawn(
        str(COMMAND),
        list(arguments),
        env=clean_environment() | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)} | environment,
        dimensions=(ROWS, COLUMNS),
    )
    program.delaybeforesend = None
    made = Terminal(program)
    try:
        yield made
    finally:
        asyncio.get_running_loop().remove_reader(program.child_fd)
        await asyncio.to_thread(program.close, force=True)
