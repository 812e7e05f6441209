"""What can be completed when."""

from __future__ import annotations

import pytest

from stafette.cli.shell.state import State
from tests.support.shell_states import URL, candidates, connected, holding


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
