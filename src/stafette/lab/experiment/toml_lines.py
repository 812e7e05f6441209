"""The lines of the keys of a TOML text, so that a problem with a value can name its line.

tomllib returns values without lines. This scanner reads the same text once, skips the contents of values (above all of
the four kinds of strings, which may contain anything) and records the line of every key and list element.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import tomllib
from collections.abc import Mapping, Sequence

Keys = tuple[str | int, ...]
"""The path to a value: keys of tables, and positions in lists, from 0."""

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
    """The line, from 1, of a key or else of the innermost table around it; None if there is neither.

    With a profile, a value that the profile sets has its line there.
    """
    return line_in(key_lines(text), path, profile=profile)


def line_in(lines: Mapping[Keys, int], path: Sequence[str | int], *, profile: str | None = None) -> int | None:
    """The same, from the lines of all keys: a text with many problems is read once."""
    keys = tuple(path)
    plain = _nearest(lines, (), keys)
    in_profile = (0, None) if profile is None else _nearest(lines, ("profiles", profile), keys)
    profile_sets_it = in_profile[0] > plain[0] or 0 < in_profile[0] == len(keys)
    return in_profile[1] if profile_sets_it else plain[1]


def _nearest(lines: Mapping[Keys, int], table: Keys, keys: Keys) -> tuple[int, int | None]:
    """How many of the keys are in the text, and the line of the last of them."""
    for end in range(len(keys), 0, -1):
        if (*table, *keys[:end]) in lines:
            return end, lines[*table, *keys[:end]]
    return 0, None


def key_lines(text: str) -> dict[Keys, int]:
    """The line of every key of a TOML text; of an invalid text, those before the error."""
    scanner = _Scanner(text)
    with contextlib.suppress(_NotToml, RecursionError):  # keep the lines so far
        scanner.document()
    return scanner.lines


class _NotToml(Exception):
    """The text is not TOML."""


class _Scanner:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Keys, int] = {}
        self._text = text
        self._position = 0
        self._line_ends = [position for position, character in enumerate(text) if character == "\n"]
        self._lengths: dict[Keys, int] = {}
        """The number of tables in each array of tables so far."""

    def document(self) -> None:
        """Scan all tables and keys."""
        table: Keys = ()
        while self._skip(_SPACE) < len(self._text):
            if self._text.startswith("[", self._position):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Keys:
        """`[a.b]`, or `[[a.b]]`, which begins one more element of the list a.b."""
        start = self._position
        symbol = "[[" if self._text.startswith("[[", start) else "["
        self._expect(symbol)
        parts = self._key()
        self._expect("]" * len(symbol))
        table: Keys = ()
        for position, part in enumerate(parts, 1):
            table = (*table, part)
            self._record(table, start)
            if symbol == "[[" and position == len(parts):
                self._lengths[table] = self._lengths.get(table, 0) + 1
            if table in self._lengths:  # what follows belongs to its last element
                table = (*table, self._lengths[table] - 1)
                self._record(table, start)
        self.lines[table] = self._line(start)  # rather than that of an earlier header that only implied the table
        return table

    def _pair(self, table: Keys) -> None:
        """`key = value`."""
        start = self._position
        for part in self._key():
            table = (*table, part)
            self._record(table, start)
        self._expect("=")
        self._skip(_BLANK)
        self._value(table)

    def _value(self, keys: Keys) -> None:
        if self._text.startswith("[", self._position):
            self._list(keys)
        elif self._text.startswith("{", self._position):
            self._inline_table(keys)
        elif self._text.startswith(('"', "'"), self._position):
            self._match(_STRING)
        else:
            self._match(_SCALAR)

    def _list(self, keys: Keys) -> None:
        self._expect("[")
        position = 0
        while not self._accept("]"):
            self._record((*keys, position), self._position)
            self._value((*keys, position))
            position += 1
            if not self._accept(","):
                self._expect("]")
                return

    def _inline_table(self, keys: Keys) -> None:
        self._expect("{")
        while not self._accept("}"):
            self._pair(keys)
            if not self._accept(","):
                self._expect("}")
                return

    def _key(self) -> list[str]:
        """A key and its dotted parts."""
        parts = []
        while True:
            self._skip(_BLANK)
            parts.append(_unquote(self._match(_KEY_PART)))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._position):
                return parts
            self._position += 1

    def _accept(self, symbol: str) -> bool:
        """Whether a symbol is next, after space and comments; if so, skip it."""
        is_next = self._text.startswith(symbol, self._skip(_SPACE))
        self._position += len(symbol) if is_next else 0
        return is_next

    def _expect(self, symbol: str) -> None:
        self._skip(_SPACE if symbol in "]}" else _BLANK)
        if not self._text.startswith(symbol, self._position):
            raise _NotToml
        self._position += len(symbol)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._position

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        if match is None or match.end() == self._position:
            raise _NotToml
        self._position = match.end()
        return match[0]

    def _record(self, keys: Keys, position: int) -> None:
        self.lines.setdefault(keys, self._line(position))

    def _line(self, position: int) -> int:
        return bisect.bisect_left(self._line_ends, position) + 1


def _unquote(part: str) -> str:
    """A part of a key without its quotes and escapes."""
    if not part.startswith(("'", '"')):
        return part
    try:
        return next(iter(tomllib.loads(f"{part} = 0")))
    except tomllib.TOMLDecodeError as error:
        raise _NotToml from error
