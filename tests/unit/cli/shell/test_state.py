"""What is possible when: in the prompt, in help and in completion."""

from __future__ import annotations

from stafette.cli.shell.state import State, prompt, toolbar
from tests.support.shell_states import ROOT, URL, connected, holding, message, names

ALWAYS = {"help", r"\timing", "quit"}
LOOKING = ALWAYS | {"disconnect", "ping", "queues", "waiting", "clients", "queue", "client", "peek", "browse"}
CHANGING = LOOKING | {"create", "delete", "send", "receive", "request"}


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
