"""How commands reach a broker: the options for it, the connection, and the advice when there is no broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stafette import settings
from stafette.cli.connection_log import show_connection_log
from stafette.cli.current_session import current_session
from stafette.errors import AlreadyOnline, StafetteError, Unavailable

if TYPE_CHECKING:
    from stafette.client.sync import Client

DEFAULT_URL = "stafette://127.0.0.1:7470"
MOST_TERMINALS = 1000
"""How many terminals may use the default name at once, each with its own number."""

Url = Annotated[
    str | None, typer.Option("--url", help="URL of one or more brokers; default: the broker of the data folder.")
]
Name = Annotated[str | None, typer.Option("--name", help="Name of this client; default: cli-USER.")]
Secret = Annotated[str | None, typer.Option("--secret", help="Secret of the name; safer in STAFETTE_SECRET.")]
Data = Annotated[Path | None, typer.Option("--data", help="Data folder of the broker.")]


class Target(NamedTuple):
    """URL to connect to, and names to try: the first that is not online is used."""

    url: str
    names: Iterable[str]
    secret: str | None


def target(url: str | None, name: str | None, secret: str | None, data: Path | None) -> Target:
    """The target from the options, else from the settings."""
    current = settings.load(url=url, name=name, secret=secret, data=data)
    return Target(address(url, data), [current.name] if current.name else default_names(), current.secret)


def address(url: str | None, data: Path | None) -> str:
    """The URL of the brokers from the options, else from the settings."""
    if url is None and data is not None:  # --data on the command line wins over a URL in the environment
        broker_url = running_url("broker", data)
        if broker_url is None:
            raise Unavailable(f"no broker runs with the data folder {data}; start one with `stafette up --data {data}`")
        return broker_url
    current = settings.load(url=url, data=data)
    return current.url or running_url("broker", current.data) or DEFAULT_URL


def connect(
    url: str | None, name: str | None, secret: str | None, data: Path | None, *, timeout: float = 30.0
) -> AbstractContextManager[Client]:
    """Connect with the options, else the settings; in the shell, use its open connection."""
    if session := current_session():
        return nullcontext(session.client)
    from stafette.client import sync

    show_connection_log()
    broker = target(url, name, secret, data)
    refusal = AlreadyOnline("the name is online already; choose another with --name")
    with advise_start():
        for candidate in broker.names:
            try:
                return sync.connect(broker.url, name=candidate, secret=broker.secret, timeout=timeout)
            except AlreadyOnline as error:
                refusal = error
    raise refusal


@contextlib.contextmanager
def advise_start() -> Iterator[None]:
    """Add to Unavailable how to start a broker."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{error}; start one with `stafette up`, or name another with --url") from error


def running_url(kind: str, data: Path) -> str | None:
    """The URL of the running broker or web console of a data folder; None if none runs."""
    from stafette.broker.control import ask_all

    try:
        answers = ask_all(data, "status", kind)
    except (StafetteError, OSError):
        return None
    return next((str(answer["url"]) for answer in answers if isinstance(answer, dict)), None)


def default_names() -> Iterator[str]:
    """Names for a person at a terminal: further terminals get numbers, which are used again when they are free."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # containers run with user ids that have no name
        user = "anybody"
    yield f"cli-{user}"
    for number in range(2, MOST_TERMINALS + 1):
        yield f"cli-{user}-{number}"
