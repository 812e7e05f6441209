"""Where a key stands in a TOML text, so that a complaint about a value can name its line.

tomllib tells what a text says, not where. This scanner goes over the same text once, skips what values contain (strings
of all four kinds above all, because they may look like anything) and notes the line of every key and list element.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import tomllib
from collections.abc import Mapping, Sequence

Keys = tuple[str | int, ...]
"""The way to a value: keys of tables, and places in lists, counted from 0."""

_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY_PART = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}|\'\'\'(?:[^\']|\'{1,2}(?!\'))*\'{3,5}'
    r'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def line_of(text: str, path: Sequence[str | int], *, profile: str | None = None) -> int | None:
    """The line, from 1, where a key stands, or else the nearest table around it; None when there is neither.

    With a profile, a value that the profile gives is looked for there.
    """
    lines, keys = key_lines(text), tuple(path)
    plain = _nearest(lines, (), keys)
    overlaid = (0, None) if profile is None else _nearest(lines, ("profiles", profile), keys)
    nearer = overlaid[0] > plain[0] or 0 < overlaid[0] == len(keys)
    return overlaid[1] if nearer else plain[1]


def _nearest(lines: Mapping[Keys, int], table: Keys, keys: Keys) -> tuple[int, int | None]:
    """How many of the keys lead somewhere, and the line to which they lead."""
    for end in range(len(keys), 0, -1):
        if (*table, *keys[:end]) in lines:
            return end, lines[*table, *keys[:end]]
    return 0, None


def key_lines(text: str) -> dict[Keys, int]:
    """The line of every key of a TOML text; of one that is not valid, of the keys before the fault."""
    scanner = _Scanner(text)
    with contextlib.suppress(_NotToml, RecursionError):  # the lines so far are the best there is
        scanner.document()
    return scanner.lines


class _NotToml(Exception):
    """The text goes on otherwise than TOML does."""


class _Scanner:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Keys, int] = {}
        self._text = text
        self._at = 0
        self._line_ends = [place for place, character in enumerate(text) if character == "\n"]
        self._lengths: dict[Keys, int] = {}
        """How many tables each array of tables has so far."""

    def document(self) -> None:
        """All tables and keys, top to bottom."""
        table: Keys = ()
        while self._skip(_SPACE) < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Keys:
        """`[a.b]`, or `[[a.b]]`, which begins one more element of the list a.b."""
        start = self._at
        mark = "[[" if self._text.startswith("[[", start) else "["
        self._expect(mark)
        parts = self._key()
        self._expect("]" * len(mark))
        table: Keys = ()
        for place, part in enumerate(parts, 1):
            table = (*table, part)
            self._note(table, start)
            if mark == "[[" and place == len(parts):
                self._lengths[table] = self._lengths.get(table, 0) + 1
            if table in self._lengths:  # what follows belongs to its last element
                table = (*table, self._lengths[table] - 1)
                self._note(table, start)
        self.lines[table] = self._line(start)  # more to the point than a header further up that only implied it
        return table

    def _pair(self, table: Keys) -> None:
        """`key = value`."""
        start = self._at
        for part in self._key():
            table = (*table, part)
            self._note(table, start)
        self._expect("=")
        self._skip(_BLANK)
        self._value(table)

    def _value(self, keys: Keys) -> None:
        if self._text.startswith("[", self._at):
            self._list(keys)
        elif self._text.startswith("{", self._at):
            self._inline_table(keys)
        elif self._text.startswith(('"', "'"), self._at):
            self._match(_STRING)
        else:
            self._match(_SCALAR)

    def _list(self, keys: Keys) -> None:
        self._expect("[")
        place = 0
        while not self._comes("]"):
            self._note((*keys, place), self._at)
            self._value((*keys, place))
            place += 1
            if not self._comes(","):
                self._expect("]")
                return

    def _inline_table(self, keys: Keys) -> None:
        self._expect("{")
        while not self._comes("}"):
            self._pair(keys)
            if not self._comes(","):
                self._expect("}")
                return

    def _key(self) -> list[str]:
        """A key and its dotted parts."""
        parts = []
        while True:
            self._skip(_BLANK)
            parts.append(_plain(self._match(_KEY_PART)))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _comes(self, mark: str) -> bool:
        """Whether a mark is next, after space and comments; if so, go past it."""
        found = self._text.startswith(mark, self._skip(_SPACE))
        self._at += len(mark) if found else 0
        return found

    def _expect(self, mark: str) -> None:
        self._skip(_SPACE if mark in "]}" else _BLANK)
        if not self._text.startswith(mark, self._at):
            raise _NotToml
        self._at += len(mark)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None or found.end() == self._at:
            raise _NotToml
        self._at = found.end()
        return found[0]

    def _note(self, keys: Keys, place: int) -> None:
        self.lines.setdefault(keys, self._line(place))

    def _line(self, place: int) -> int:
        return bisect.bisect_left(self._line_ends, place) + 1


def _plain(part: str) -> str:
    """A part of a key without its quotes and escapes."""
    if not part.startswith(("'", '"')):
        return part
    try:
        return next(iter(tomllib.loads(f"{part} = 0")))
    except tomllib.TOMLDecodeError as error:
        raise _NotToml from error
