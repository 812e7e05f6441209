"""Messages are somebody else's text: a terminal shows them and does not obey them."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.cli.output import escape_controls
from stafette.cli.shell.show import format_body, format_head
from stafette.model import Message


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"hello", "hello"),
        ("grüße ✓ 漢字".encode(), "grüße ✓ 漢字"),
        (b"two\n\tlines", "two\n\tlines"),
        (b"\x1b[2Jgone", r"\x1b[2Jgone"),
        (b"a\rb\x07\x7f", r"a\rb\x07\x7f"),
        ("\x9b2J".encode(), r"\x9b2J"),
        ("a\u202eb".encode(), r"a\u202eb"),
        ("a\u2028b".encode(), r"a\u2028b"),
        (b"\xff\x00\x01", "ff 00 01"),
        (bytes([0xFF] * 33), " ".join(["ff"] * 32) + "\nff"),
        (b"", ""),
    ],
)
def test_bodies(content: bytes, text: str) -> None:
    assert format_body(content) == text


@given(st.binary())
def test_no_body_steers_the_terminal(content: bytes) -> None:
    assert not [char for char in format_body(content) if unicodedata.category(char) == "Cc" and char not in "\n\t"]


def test_the_head_is_one_line() -> None:
    message = Message(
        7, "jobs", "bob", "alice", 12, 9, datetime.now(UTC), 2, {"trick": "\n\x1b[1m"}, b"\xff"
    )  # fmt: skip
    assert format_head(message) == (
        r"message 7, in jobs, from bob, to alice, priority 9, context 12, delivery 2, 1 bytes, in hex, trick=\n\x1b[1m"
    )


def test_surrogates_do_not_stop_the_printing() -> None:
    assert escape_controls("\ud800") == r"\ud800"
