"""What is possible when: in the prompt, in help and in completion."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from stafette.cli.shell.commands import all_commands, possible
from stafette.cli.shell.completion import slot
from stafette.cli.shell.state import Held, State, prompt, toolbar
from stafette.client.address import Address
from stafette.client.aio import Client
from stafette.client.lease import Lease
from stafette.model import Message, Mode

URL = "stafette://127.0.0.1:7470"

ALWAYS = {"help", r"\timing", "quit"}
LOOKING = ALWAYS | {"disconnect", "ping", "queues", "waiting", "clients", "peek", "browse"}
CHANGING = LOOKING | {"create", "delete", "send", "receive", "request"}


async def connected(mode: Mode = "full", url: str = URL) -> State:
    """Connected as far as the state is concerned."""
    state = State()
    client = Client(Address.parse(url), name="alice", mode=mode, secret=None, timeout=1)
    state.connected(client, url, mode)
    return state


async def holding(seconds: float = 30) -> State:
    state = await connected()
    assert state.client is not None
    state.held = Held(Lease(state.client, message(), token=1), time.monotonic() + seconds)
    return state


def message(body: bytes = b"") -> Message:
    return Message(12, "jobs", "bob", None, None, 5, datetime.now(UTC), 1, None, body)


def names(state: State) -> set[str]:
    return {command.name for command in possible(state)}


async def test_what_is_possible_when() -> None:
    assert names(State()) == ALWAYS | {"connect"}
    assert names(await connected()) == CHANGING | {"lease"}
    assert names(await connected("read-only")) == LOOKING
    assert names(await holding()) == CHANGING | {"ack", "nack", "extend", "reply"}


async def test_what_was_received_can_be_replied_to() -> None:
    state = await connected()
    state.last = message()
    assert names(state) == CHANGING | {"lease", "reply"}


async def test_a_lease_that_ran_out_is_not_held() -> None:
    assert names(await holding(seconds=0)) == CHANGING | {"lease"}


async def test_nothing_of_a_connection_outlives_it() -> None:
    state = await holding()
    state.last = message()
    state.disconnected()
    assert names(state) == ALWAYS | {"connect"}


def test_every_command_explains_itself() -> None:
    for command in all_commands():
        assert command.summary, command.name
        assert command.usage.startswith(command.name)


async def test_prompt_and_toolbar_tell_the_state() -> None:
    assert (prompt(State()), toolbar(State())) == ("not connected> ", "not connected")
    state = await connected()
    assert prompt(state) == "alice@127.0.0.1:7470> "
    assert toolbar(state) == f"alice at {URL}"
    assert prompt(await connected("read-only")) == "alice@127.0.0.1:7470 (read-only)> "
    assert prompt(await connected(url="stafette://[::1]:1,other:2")) == "alice@[::1]:1+1> "
    state = await holding(30)
    state.timing, state.took = True, 0.0123
    assert prompt(state) == "alice@127.0.0.1:7470*> "
    assert toolbar(state) == f"alice at {URL} | lease on message 12 of jobs: 30 s left | timing on, last 12.3 ms"


@pytest.mark.parametrize(
    ("before", "candidates"),
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
        ("create j", []),
        ("create x dead-letter=j", ["jobs "]),
        ("help cre", ["create "]),
        ("help ack", []),
        ("nonsense ", []),
    ],
)
async def test_completion_while_connected(before: str, candidates: list[str]) -> None:
    place = slot(before, await connected())
    found = place.candidates(["jobs", "quick", "quick one"] if place.names == "queue" else [])
    assert found == candidates


async def test_completion_of_clients() -> None:
    place = slot("send jobs receiver=b", await connected())
    assert (place.names, place.candidates(["alice", "bob"])) == ("client", ["bob "])


async def test_completion_of_connect() -> None:
    assert slot("co", State()).candidates() == ["connect "]
    assert slot("connect ", State()).candidates() == [f"{URL} ", "as ", "mode="]
    assert slot(f"connect {URL} ", State()).candidates() == ["as ", "mode="]
    state = State(name="alice")
    assert slot(f"connect {URL} as ", state).candidates() == ["alice "]
    assert slot("connect as ", state).candidates() == ["alice "]
    assert slot("connect mode=", state).candidates() == ["full ", "read-only "]


async def test_completion_while_holding() -> None:
    assert slot("a", await holding()).candidates() == ["ack "]
    assert slot("l", await holding()).candidates() == []
