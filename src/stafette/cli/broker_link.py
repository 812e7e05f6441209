"""How commands reach a broker: as whom, where, and what to tell a person when nobody is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stafette import settings
from stafette.cli.current_session import current_session
from stafette.errors import AlreadyOnline, StafetteError, Unavailable

if TYPE_CHECKING:
    from stafette.client.sync import Client

DEFAULT_URL = "stafette://127.0.0.1:7470"
MOST_TERMINALS = 1000
"""How many may use the default name at once, each with a number of its own."""

Url = Annotated[str | None, typer.Option("--url", help="Brokers to talk to; by default the one of the data folder.")]
Name = Annotated[str | None, typer.Option("--name", help="Who to be; by default cli-USER.")]
Secret = Annotated[str | None, typer.Option("--secret", help="Of the name; better in STAFETTE_SECRET.")]
Data = Annotated[Path | None, typer.Option("--data", help="Data folder whose broker to talk to.")]


class Target(NamedTuple):
    """Where to connect, and as whom: the first of the names that is not online already."""

    url: str
    names: Iterable[str]
    secret: str | None


def target(url: str | None, name: str | None, secret: str | None, data: Path | None) -> Target:
    """What the options, else the settings, say."""
    chosen = settings.load(url=url, name=name, secret=secret, data=data)
    return Target(address(url, data), [chosen.name] if chosen.name else default_names(), chosen.secret)


def address(url: str | None, data: Path | None) -> str:
    """The brokers that the options, else the settings, name."""
    if url is None and data is not None:  # a --data that was typed is nearer than a URL in the environment
        found = running("broker", data)
        if found is None:
            raise Unavailable(f"no broker runs with the data folder {data}; start one with `stafette up --data {data}`")
        return found
    chosen = settings.load(url=url, data=data)
    return chosen.url or running("broker", chosen.data) or DEFAULT_URL


def connect(
    url: str | None, name: str | None, secret: str | None, data: Path | None, *, timeout: float = 30.0
) -> AbstractContextManager[Client]:
    """Connect as the options, else the settings, say; a command of the shell uses the connection that is open."""
    if session := current_session():
        return nullcontext(session.client)
    from stafette.client import sync

    where = target(url, name, secret, data)
    online = AlreadyOnline("the name is online already; choose another with --name")
    with explained():
        for candidate in where.names:
            try:
                return sync.connect(where.url, name=candidate, secret=where.secret, timeout=timeout)
            except AlreadyOnline as error:
                online = error
    raise online


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Say how to start a broker where none can be reached."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{error}; start one with `stafette up`, or name another with --url") from error


def running(kind: str, data: Path) -> str | None:
    """Where the broker, or the web console, with this data folder serves, if it runs."""
    from stafette.broker.control import ask_all

    try:
        answers = ask_all(data, "status", kind)
    except (StafetteError, OSError):
        return None
    return next((str(answer["url"]) for answer in answers if isinstance(answer, dict)), None)


def default_names() -> Iterator[str]:
    """Who a person at a terminal is. Further terminals get numbers, and the next ones get the same numbers again."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user: containers run with any id
        user = "anybody"
    yield f"cli-{user}"
    for number in range(2, MOST_TERMINALS + 1):
        yield f"cli-{user}-{number}"
