"""What a typed line says."""

from __future__ import annotations

import contextlib
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.cli.shell.grammar import (
    CLIENT,
    SECONDS,
    TEXT,
    WHOLE,
    YES_NO,
    Kind,
    Line,
    Usage,
    choice,
    parse,
    read_options,
)


@pytest.mark.parametrize("text", ["", "   ", "# a comment", "   # another", "\t"])
def test_lines_that_say_nothing(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("queues", Line("queues")),
        ("  queues  ", Line("queues")),
        (r"\q", Line(r"\q")),
        (r"\timing", Line(r"\timing")),
        ("send jobs hello world", Line("send", ("jobs", "hello", "world"))),
        ("send jobs 'hello  world'", Line("send", ("jobs", "hello  world"))),
        ('send jobs ""', Line("send", ("jobs", ""))),
        (r"send jobs don\'t", Line("send", ("jobs", "don't"))),
        ("send jobs priority=7 hi receiver=bob", Line("send", ("jobs", "hi"), {"priority": "7", "receiver": "bob"})),
        ("send jobs key='two words' hi", Line("send", ("jobs", "hi"), {"key": "two words"})),
        ("send jobs key='two\nlines' hi", Line("send", ("jobs", "hi"), {"key": "two\nlines"})),
        ("send jobs key= hi", Line("send", ("jobs", "hi"), {"key": ""})),
        ("send jobs -- priority=7 -- x", Line("send", ("jobs", "priority=7", "--", "x"))),
        ("send jobs 'a = b' X=1 =2", Line("send", ("jobs", "a = b", "X=1", "=2"))),
        ("send jobs #1", Line("send", ("jobs", "#1"))),
    ],
)
def test_lines(text: str, line: Line) -> None:
    assert parse(text) == line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("send jobs don't", "a quotation mark is not closed"),
        ('send jobs "', "a quotation mark is not closed"),
        ("send jobs \\", "a backslash at the end"),
        ("peek wait=1 wait=2", "the option wait is given twice"),
    ],
)
def test_lines_that_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(Usage, match=says):
        parse(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_words_can_be_said_behind_two_dashes(words: list[str]) -> None:
    assert parse(f"send jobs -- {shlex.join(words)}") == Line("send", ("jobs", *words))


@given(st.text())
def test_whatever_is_typed_is_read_or_refused_with_a_sentence(text: str) -> None:
    with contextlib.suppress(Usage):
        parse(text)


KINDS: dict[str, Kind] = {
    "priority": WHOLE, "wait": SECONDS, "receiver": CLIENT, "key": TEXT, "exist-ok": YES_NO,
    "order": choice("priority", "arrival"),
}  # fmt: skip


def test_options_become_values_under_names_that_python_takes() -> None:
    line = parse("x priority=7 wait=2.5 receiver=bob key=k exist-ok=yes order=arrival")
    assert line is not None
    assert read_options(line, KINDS) == {
        "priority": 7, "wait": 2.5, "receiver": "bob", "key": "k", "exist_ok": True, "order": "arrival",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x pryority=7", "x has no option pryority; known are priority, wait, receiver, key, exist-ok, order"),
        ("x priority=high", "priority=high is not a whole number"),
        ("x wait=long", "wait=long is not a number of seconds"),
        ("x wait=-1", "wait=-1 is not a number of seconds from 0 on"),
        ("x wait=nan", "wait=nan is not a number of seconds from 0 on"),
        ("x receiver=", "receiver= wants a value"),
        ("x exist-ok=maybe", "exist-ok=maybe is neither yes nor no"),
        ("x order=none", "order=none is not one of priority, arrival"),
    ],
)
def test_options_that_are_refused(text: str, says: str) -> None:
    line = parse(text)
    assert line is not None
    with pytest.raises(Usage, match=says):
        read_options(line, KINDS)


def test_a_command_without_options_says_so() -> None:
    with pytest.raises(Usage, match="ping has no option a; it has none"):
        read_options(Line("ping", (), {"a": "1"}), {})
