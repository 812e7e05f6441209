"""What is possible when: in the prompt, in help and in completion."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from stafette.cli.current_session import Kind
from stafette.cli.shell.line_completion import complete
from stafette.cli.shell.shared import root
from stafette.cli.shell.shell_session import ShellSession
from stafette.cli.shell.state import HeldLease, State, prompt, toolbar
from stafette.client import aio
from stafette.client import lease as aio_lease
from stafette.client.address import Address
from stafette.client.sync import Client, Lease
from stafette.model import Message, Mode

URL = "stafette://127.0.0.1:7470"

ALWAYS = {"help", r"\timing", "quit"}
LOOKING = ALWAYS | {"disconnect", "ping", "queues", "waiting", "clients", "queue", "client", "peek", "browse"}
CHANGING = LOOKING | {"create", "delete", "send", "receive", "request"}

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
    lease = Lease(state.client, aio_lease.Lease(client, message(), token=1))
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


async def test_what_is_possible_when() -> None:
    assert names(State()) == ALWAYS | {"connect"}
    assert names(await connected()) == CHANGING | {"lease"}
    assert names(await connected("read-only")) == LOOKING
    assert names(await holding()) == CHANGING | {"ack", "nack", "extend", "reply"}


async def test_what_was_received_can_be_replied_to() -> None:
    state = await connected()
    state.last_received = message()
    assert names(state) == CHANGING | {"lease", "reply"}


async def test_a_lease_that_ran_out_is_not_held() -> None:
    assert names(await holding(seconds=0)) == CHANGING | {"lease"}


async def test_nothing_of_a_connection_outlives_it() -> None:
    state = await holding()
    state.last_received = message()
    state.disconnected()
    assert names(state) == ALWAYS | {"connect"}


def test_every_command_explains_itself() -> None:
    for name, command in ROOT.commands.items():
        assert command.get_short_help_str(), name
        for word, inner in getattr(command, "commands", {}).items():
            assert inner.get_short_help_str(), word


async def test_prompt_and_toolbar_tell_the_state() -> None:
    assert (prompt(State()), toolbar(State())) == ("not connected> ", "not connected")
    state = await connected()
    assert prompt(state) == "alice@127.0.0.1:7470> "
    assert toolbar(state) == f"alice at {URL}"
    assert prompt(await connected("read-only")) == "alice@127.0.0.1:7470 (read-only)> "
    assert prompt(await connected(url="stafette://[::1]:1,other:2")) == "alice@[::1]:1+1> "
    state = await holding(30)
    state.timing, state.last_seconds = True, 0.0123
    assert prompt(state) == "alice@127.0.0.1:7470*> "
    assert toolbar(state) == f"alice at {URL} | lease on message 12 of jobs: 30 s left | timing on, last 12.3 ms"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("cr", ["create "]),
        ("  cr", ["create "]),
        ("\\", ["\\timing ", "\\q "]),
        ("ack", []),
        ("connect", []),
        ("lease q", ["quick "]),
        ("lease '", ["'quick one' "]),
        ("lease quick se", ["seconds=", "sender="]),
        ("lease quick seconds=5 se", ["sender="]),
        ("lease seconds=5 jo", ["jobs "]),
        ("peek order=", ["priority ", "arrival "]),
        ("peek order=a", ["arrival "]),
        ("send jobs,qu", ["quick "]),
        ("send jobs -- pri", []),
        ("send jobs nonsense=", []),
        ("create q", []),
        ("create x dead-letter=j", ["jobs "]),
        ("help cre", ["create "]),
        ("help ack", []),
        ("nonsense ", []),
        ("send jobs receiver=b", ["bob "]),
        ("send jobs --receiver b", ["bob "]),
        ("send jobs --rec", ["--receiver "]),
        ("delete jobs force=", ["yes ", "no "]),
        ("queue create x dead-letter=j", ["jobs "]),
    ],
)
async def test_completion_while_connected(before: str, expected: list[str]) -> None:
    assert candidates(before, await connected()) == expected


async def test_completion_of_connect() -> None:
    assert candidates("co", State()) == ["connect "]
    assert candidates("connect ", State()) == [f"{URL} ", "as ", "mode="]
    assert candidates(f"connect {URL} ", State()) == ["as ", "mode="]
    state = State(name="alice")
    assert candidates(f"connect {URL} as ", state) == ["alice "]
    assert candidates("connect as ", state) == ["alice "]
    assert candidates("connect mode=", state) == ["full ", "read-only "]


async def test_completion_while_holding() -> None:
    assert candidates("a", await holding()) == ["ack "]
    assert candidates("l", await holding()) == []


async def test_completion_of_a_group_is_what_is_possible() -> None:
    assert candidates("queue ", await connected("read-only")) == ["ls ", "info "]
    assert {"create ", "purge ", "rm "} < set(candidates("queue ", await connected()))
