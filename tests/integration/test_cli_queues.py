"""`stafette queue` and `stafette client`, and what all commands of the root have in common."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import stafette
from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load
from tests.support.command_line import CommandLine, assert_one_sentence, everything_up
from tests.support.command_line import stafette as command

OURS = ("doctor", "send", "receive", "peek", "request", "reply", "queue", "client", "completion")


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with everything_up(tmp_path_factory.mktemp("queues") / "data") as command_line:
        yield command_line


def test_a_queue_is_made_listed_looked_at_emptied_and_deleted(cli: CommandLine) -> None:
    cli("queue", "create", "failed")
    queue = cli.json(
        "queue", "create", "jobs", "--exclude-own", "--max-body", "10", "--max-deliveries", "2",
        "--dead-letter", "failed", "--name", "alice",
    )  # fmt: skip
    assert (queue["creator"], queue["exclude_own"], queue["max_body"]) == ("alice", True, 10)
    assert (queue["max_deliveries"], queue["dead_letter"], queue["owner"]) == (2, "failed", None)
    assert_one_sentence(command("queue", "create", "jobs", "--url", cli.url), 1, "queue jobs already exists")
    assert cli("queue", "create", "jobs", "--exist-ok") == "jobs\n"
    assert cli.json("queue", "info", "jobs") == queue
    assert cli.json("queue", "info", str(queue["id"])) == queue
    assert "max_deliveries\t2\n" in cli("queue", "info", "jobs")
    cli("queue", "info", "nowhere", code=4)
    cli("queue", "info", "4711", code=4)

    assert_one_sentence(command("send", "jobs", "eleven bytes", "--url", cli.url), 1, "10")
    for body in ("a", "b"):
        cli("send", "jobs", body, "--name", "alice")
    head, *lines = cli("queue", "ls").splitlines()
    assert head.split("\t") == ["name", "messages", "owner", "creator", "created"]
    assert next(line for line in lines if line.startswith("jobs\t")).startswith("jobs\t2\t-\talice\t20")
    assert next(line for line in lines if line.startswith("@alice\t")).startswith("@alice\t0\talice\talice\t20")
    assert {row["name"]: row["messages"] for row in cli.json("queue", "ls")}["jobs"] == 2
    assert len(cli.json("queue", "ls", "--limit", "1")) == 1

    assert_one_sentence(command("queue", "rm", "jobs", "--yes", "--url", cli.url), 1, "still holds messages")
    for arguments in (["queue", "rm", "jobs"], ["queue", "purge", "jobs"], ["client", "rm", "alice"]):
        unasked = command(*arguments, "--url", cli.url)
        assert unasked.returncode == 2
        assert "--yes" in unasked.stderr
    assert cli("queue", "purge", "jobs", "--yes") == "2\n"
    assert cli.json("queue", "purge", "jobs", "--yes") == {"purged": 0}
    cli("send", "jobs", "c", "--name", "alice")
    cli("queue", "rm", "jobs", "--force", "--yes")
    cli("queue", "rm", "jobs", "--yes", code=4)


def test_queues_with_messages_for_me(cli: CommandLine) -> None:
    for name in ("first", "second", "third"):
        cli("queue", "create", name)
    with stafette.connect(cli.url, name="sender") as sender:
        sender.send(["first", "second"], "x", receiver="dora", allow_unknown=True)
        sender.send("third", "for anybody")
    queues = cli.json("queue", "ls", "--waiting", "--name", "dora")
    assert [(queue["name"], queue["messages"]) for queue in queues] == [("first", 1), ("second", 1)]
    assert len(cli.json("queue", "ls", "--waiting", "--name", "dora", "--limit", "1")) == 1
    assert cli("queue", "ls", "--waiting", "--name", "emil") == ""


def test_clients_are_listed_looked_at_and_deleted(cli: CommandLine) -> None:
    with stafette.connect(cli.url, name="frieda", mode="read-only"):
        lines = cli("client", "ls").splitlines()
        assert lines[0].split("\t") == ["name", "mode", "broker", "registered", "last seen"]
        details = cli.json("client", "info", "frieda")
        assert (details["name"], details["mode"], bool(details["broker"])) == ("frieda", "read-only", True)
        assert next(client for client in cli.json("client", "ls") if client["name"] == "frieda") == details
        assert_one_sentence(command("client", "rm", "frieda", "--yes", "--url", cli.url), 1, "online")
    assert "broker\t-\n" in cli("client", "info", "frieda")
    cli("client", "rm", "frieda", "--yes")
    assert_one_sentence(command("client", "info", "frieda", "--url", cli.url), 4, "frieda")
    assert_one_sentence(command("client", "rm", "frieda", "--yes", "--url", cli.url), 4, "frieda")
    cli("client", "rm", "gustav", "--yes", "--name", "gustav")  # oneself


def leaves(command: Any) -> list[Any]:
    children = getattr(command, "commands", {})
    return [leaf for child in children.values() for leaf in leaves(child)] if children else [command]


@pytest.mark.parametrize("name", OURS)
def test_every_command_has_an_example(name: str) -> None:
    for leaf in leaves(load(name, COMMANDS[name])):
        assert re.search(r"Example: (.*\| )?stafette ", leaf.help), leaf.name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_the_commands_say(name: str) -> None:
    loaded = load(name, COMMANDS[name])
    assert " ".join(loaded.help.split("\n\n")[0].split()) == COMMANDS[name].help


def test_help_does_not_load_the_commands() -> None:
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stafette", "--help"], capture_output=True, text=True, check=True
    ).stderr
    assert "stafette.cli.lazy" in loaded
    for heavy in ("asyncio", "asyncpg", "pydantic", "stafette.client", "stafette.broker", "stafette.cli.lab"):
        assert not re.search(rf"\| +{re.escape(heavy)}$", loaded, re.MULTILINE), heavy
