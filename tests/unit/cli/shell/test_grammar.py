"""What a typed line means: arguments for the commands' own definitions."""

from __future__ import annotations

import contextlib
import shlex
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from stafette.cli.shell.grammar import Usage, read, split
from stafette.cli.shell.shared import root

ROOT = root()


def parse(text: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The command, and what its definition makes of the rest; without what has its default."""
    line = read(split(text), ROOT)
    context = line.command.make_context(line.name, list(line.arguments))
    defaults = line.command.make_context(line.name, [], resilient_parsing=True).params
    return line.path, {name: value for name, value in context.params.items() if value != defaults.get(name)}


@pytest.mark.parametrize("text", ["", "   ", "# a comment", "   # another", "\t"])
def test_lines_that_say_nothing(text: str) -> None:
    assert split(text) == []


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        ("queues", "queue ls", {}),
        ("  queues  ", "queue ls", {}),
        ("waiting limit=3", "queue ls", {"waiting": True, "limit": 3}),
        ("queue ls --waiting --limit 3", "queue ls", {"waiting": True, "limit": 3}),
        ("clients", "client ls", {}),
        ("create x exist-ok=yes max-body=7", "queue create", {"new": "x", "exist_ok": True, "max_body": 7}),
        ("create x exist-ok=no", "queue create", {"new": "x"}),
        ("delete x force=yes", "queue rm", {"queue": "x", "force": True, "yes": True}),
        (r"\q", "quit", {}),
        (r"\timing", r"\timing", {}),
        ("? ack", "help", {"command": ("ack",)}),
        ("send jobs hello world", "send", {"queue": "jobs", "body": "hello world"}),
        ("send jobs 'hello  world'", "send", {"queue": "jobs", "body": "hello  world"}),
        ('send jobs ""', "send", {"queue": "jobs", "body": ""}),
        ("send jobs", "send", {"queue": "jobs"}),
        (r"send jobs don\'t", "send", {"queue": "jobs", "body": "don't"}),
        (
            "send jobs priority=7 hi receiver=bob",
            "send",
            {"queue": "jobs", "body": "hi", "priority": 7, "receiver": "bob"},
        ),
        ("send jobs --priority 7 hi", "send", {"queue": "jobs", "body": "hi", "priority": 7}),
        ("send jobs --header a=b hi", "send", {"queue": "jobs", "body": "hi", "header": ("a=b",)}),
        ("send jobs header=a=b hi", "send", {"queue": "jobs", "body": "hi", "header": ("a=b",)}),
        ("send jobs key='two words' hi", "send", {"queue": "jobs", "body": "hi", "key": "two words"}),
        ("send jobs key='two\nlines' hi", "send", {"queue": "jobs", "body": "hi", "key": "two\nlines"}),
        ("send jobs -- priority=7 -- x", "send", {"queue": "jobs", "body": "priority=7 -- x"}),
        ("send jobs 'a = b' X=1 =2", "send", {"queue": "jobs", "body": "a = b X=1 =2"}),
        ("send jobs #1", "send", {"queue": "jobs", "body": "#1"}),
        ("send jobs as you like", "send", {"queue": "jobs", "body": "as you like"}),
        ("peek wait=2.5 order=arrival", "peek", {"wait": 2.5, "order": "arrival"}),
        ("connect a:1 as bob mode=read-only", "connect", {"url": "a:1", "name": "bob", "mode": "read-only"}),
        ("connect as bob", "connect", {"name": "bob"}),
        ("connect --name as", "connect", {"name": "as"}),
    ],
)
def test_lines(text: str, path: str, values: dict[str, Any]) -> None:
    assert parse(text) == (tuple(path.split()), values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("send jobs don't", "a quotation mark is not closed"),
        ('send jobs "', "a quotation mark is not closed"),
        ("send jobs \\", "a backslash at the end"),
        ("nonsense", "there is no command nonsense"),
        ("queue", "Missing command"),
        ("queue nonsense", "No such command 'nonsense'"),
        ("send", "Missing argument 'QUEUE'"),
        ("queues x", "Got unexpected extra argument"),
        ("ping a=1", "ping has no option a; it has none; words after -- are not options"),
        ("peek pryority=7", "peek has no option pryority; it has wait, count, all, sender, context, order"),
        ("peek --pryority 7", "No such option: --pryority"),
        ("peek url=stafette://elsewhere", "peek has no option url"),
        ("send jobs priority=high", "'--priority': 'high' is not a valid int"),
        ("send jobs priority=11", "'--priority': 11 is not in the range"),
        ("peek wait=long", "'--wait': 'long' is not a valid float"),
        ("peek wait=-1", "'--wait': -1.0 is not in the range"),
        ("send jobs receiver=", "receiver= needs a value"),
        ("create x exist-ok=maybe", "exist-ok=maybe is not valid; use yes or no"),
        ("peek order=none", "'--order': 'none' is not one of 'priority', 'arrival'"),
    ],
)
def test_lines_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(typer.TyperException) as refusal:
        parse_and_resolve(text)
    assert says in refusal.value.format_message()
    assert refusal.value.exit_code == 2


def parse_and_resolve(text: str) -> None:
    path, _ = parse(text)
    if path == ("queue",):  # a group leaves its commands to be looked up when it is called
        line = read(split(text), ROOT)
        line.command.invoke(line.command.make_context("queue", line.arguments))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_words_can_be_said_behind_two_dashes(words: list[str]) -> None:
    assert parse(f"send jobs -- {shlex.join(words)}") == (("send",), {"queue": "jobs", "body": " ".join(words)})


@given(st.text())
def test_whatever_is_typed_is_read_or_refused_with_a_sentence(text: str) -> None:
    with contextlib.suppress(Usage):
        if words := split(text):
            read(words, ROOT)
