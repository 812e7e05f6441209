"""The shell in its states, without a broker."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from stafette.cli.current_session import Kind
from stafette.cli.shell.line_completion import complete
from stafette.cli.shell.shared import root
from stafette.cli.shell.shell_session import ShellSession
from stafette.cli.shell.state import HeldLease, State
from stafette.client import aio
from stafette.client import lease as aio_lease
from stafette.client.address import Address
from stafette.client.sync import Client, Lease
from stafette.model import Message, Mode

URL = "stafette://127.0.0.1:7470"

ROOT = root()


async def connected(mode: Mode = "full", url: str = URL) -> State:
    """Connected as far as the state is concerned."""
    state = State()
    client = aio.Client(Address.parse(url), name="alice", mode=mode, secret=None, timeout=1)
    state.connected(Client(client, asyncio.get_running_loop()), url, mode)
    return state


async def holding(seconds: float = 30) -> State:
    state = await connected()
    assert state.client is not None
    client = aio.Client(Address.parse(URL), name="alice", mode="full", secret=None, timeout=1)
    lease = Lease(state.client, aio_lease.Lease(client, message(), token=1, held_until=0.0))
    state.held_lease = HeldLease(lease, message(), time.monotonic() + seconds)
    return state


def message(body: bytes = b"") -> Message:
    return Message(12, "jobs", "bob", None, None, 5, datetime.now(UTC), 1, None, body)


class Nobody:
    """Who is not asked for anything here."""

    def ask_body(self) -> str:
        raise AssertionError

    def ask_secret(self) -> str | None:
        raise AssertionError


class Session(ShellSession):
    """A session whose broker has these names."""

    def names(self, kind: Kind) -> list[str]:
        return {"queue": ["jobs", "quick", "quick one"], "client": ["alice", "bob"]}[kind]


def session(state: State) -> ShellSession:
    return Session(state, Nobody(), ROOT)


def names(state: State) -> set[str]:
    return set(session(state).possible_commands())


def candidates(before: str, state: State) -> list[str]:
    return list(complete(before, session(state)).candidates)
