"""How large a TOML text may be, checked before it is parsed.

A parser builds a table for every part of a dotted key, and a tuple of all parts before it, so 160 KB of `a.a.a…` take
gigabytes. The check here takes one pass over the text and keeps nothing. It need not agree with TOML in every detail:
of a text that is not TOML the parser still says what is wrong.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from stafette.errors import InvalidRequest

MOST_BYTES = 200_000
"""The largest experiment of the library has 2,308."""
MOST_KEYS = 2_000
"""Keys and headers; the largest experiment of the library has 70."""
MOST_DEPTH = 16
"""Tables and lists in one another, and parts of a dotted key; no key of an experiment is deeper than 8."""

_TOKEN = re.compile(
    r"""
    (?P<string>
        \"{3}(?:[^"\\]|\\.|"{1,2}+(?!"))*+(?:\"{3,5}|\Z)
      | '{3}(?:[^']|'{1,2}+(?!'))*+(?:'{3,5}|\Z)
      | "(?:[^"\\\n]|\\.)*+"?
      | '[^'\n]*+'?
    )
  | (?P<comment>\#[^\n]*+)
  | (?P<open>[\[{])
  | (?P<close>[\]}])
  | (?P<dot>\.)
  | (?P<equals>=)
  | (?P<name>[A-Za-z0-9_-]++)
  | (?P<newline>\n)
    """,
    re.VERBOSE | re.DOTALL,
)
"""What the check looks at. A string that does not end is one to the end of its line or text, and all repetitions are
possessive, so no text takes more than one pass."""


class TooLarge(InvalidRequest):
    """A text is larger than an experiment may be."""


def loads(text: str) -> dict[str, Any]:
    """The tables of a text; raises TooLarge before it is parsed, and what tomllib raises."""
    check(text)
    return tomllib.loads(text)


def check(text: str) -> None:
    """Raise TooLarge if a text is longer, has more keys, or is nested more deeply than an experiment may."""
    check_size(len(text.encode(errors="replace")))
    keys = depth = parts = 0
    before = "newline"
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        parts = parts + 1 if kind == "dot" else parts if before == "dot" else 0
        if kind == "open":
            keys += before == "newline"  # a header
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "equals":
            keys += 1
        before = kind or ""
        if max(depth, parts) > MOST_DEPTH:
            line = text.count("\n", 0, token.start()) + 1
            raise TooLarge(f"line {line} is nested more deeply than {MOST_DEPTH} levels; make it flatter")
    if keys > MOST_KEYS:
        raise TooLarge(f"the text has {keys:,} keys, and an experiment has at most {MOST_KEYS:,}; split it")


def check_size(size: int) -> None:
    """Raise TooLarge for a text of more bytes than an experiment may have."""
    if size > MOST_BYTES:
        raise TooLarge(f"the text is too long; an experiment has at most {MOST_BYTES:,} bytes")
