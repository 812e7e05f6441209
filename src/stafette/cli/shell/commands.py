"""What a command is, and which ones are possible now. The commands themselves are in the `on_*` files."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stafette.cli.shell.grammar import Kind, Line, Usage, read_options
from stafette.cli.shell.state import Need, State, unmet
from stafette.client.aio import Client


class Talk(Protocol):
    """What a command may use: the state, and the person for what a line does not say."""

    state: State

    @property
    def client(self) -> Client:
        """The connection; for commands that need one."""

    async def ask_body(self) -> str:
        """A body of several lines, up to a lone dot."""

    async def ask_secret(self) -> str | None:
        """A secret, which is not shown; None where nobody can be asked."""


Run = Callable[..., Awaitable[None]]


@dataclass(frozen=True, eq=False)
class Command:
    """A command: how it is written, when it is possible, what it does."""

    usage: str
    run: Run
    """Takes the talk, the words, and the options by name."""
    needs: tuple[Need, ...] = ()
    options: Mapping[str, Kind] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    """What each word names, for completion: queue, client, command, or a word to be typed as it is."""
    at_least: int = 0
    at_most: int | None = None
    """How many words it takes; None is any number."""
    aliases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How it is called."""
        return self.usage.split()[0]

    @property
    def help(self) -> str:
        """What it does: the first line alone will do in a list."""
        return inspect.getdoc(self.run) or ""

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return self.help.partition("\n")[0].removesuffix(".")

    async def __call__(self, talk: Talk, line: Line) -> None:
        """Do what the line says, if that is possible now."""
        if sentence := unmet(self.needs, talk.state):
            raise Usage(f"{self.name} is not possible now: {sentence}")
        options: dict[str, Any] = read_options(line, self.options)
        if len(line.words) < self.at_least or (self.at_most is not None and len(line.words) > self.at_most):
            raise Usage(f"{self.name} is written: {self.usage}")
        await self.run(talk, *line.words, **options)


_COMMANDS: dict[str, Command] = {}


def command(usage: str, **about: Any) -> Callable[[Run], Run]:
    """Make a function a command of the shell; its docstring is the help."""

    def register(run: Run) -> Run:
        made = Command(usage, run, **about)
        for name in (made.name, *made.aliases):
            _COMMANDS[name] = made
        return run

    return register


def all_commands() -> list[Command]:
    """Every command, in the order in which help tells them."""
    from stafette.cli.shell import on_leases, on_messages, on_queues, on_session

    homes = [module.__name__ for module in (on_session, on_queues, on_messages, on_leases)]
    return sorted(dict.fromkeys(_COMMANDS.values()), key=lambda one: homes.index(one.run.__module__))


def possible(state: State) -> list[Command]:
    """The commands that can be given now."""
    return [one for one in all_commands() if unmet(one.needs, state) is None]


def find(name: str) -> Command:
    """The command of this name, possible or not."""
    all_commands()
    try:
        return _COMMANDS[name]
    except KeyError:
        raise Usage(f"there is no command {name}; `help` lists those that are possible now") from None
