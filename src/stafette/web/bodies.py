"""The body of a message on a page: always as text that shows what is there, and never more of it than one can read."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal

import msgspec

View = Literal["text", "json", "hex"]

TEXT_BYTES = 256 * 1024
JSON_BYTES = 1024 * 1024
HEX_BYTES = 4 * 1024
"""What one page shows; the rest of a long body is on the next, and all of it in the file."""
HEX_WIDTH = 16
BIDI = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "▫")
"""Marks that would turn the text around them; shown instead of obeyed."""


@dataclass(frozen=True)
class Shown:
    """A body, or a part of it, ready for a page."""

    view: View
    text: str
    start: int
    end: int
    """The bytes that are shown: from, and up to but without."""
    problem: str | None = None


def natural_view(body: bytes) -> View:
    """How a body wants to be seen."""
    if body[:64].lstrip()[:1] in (b"{", b"[") and _pretty(body) is not None:
        return "json"
    try:
        text = body[:TEXT_BYTES].decode()
    except UnicodeDecodeError as error:
        return "text" if error.start > TEXT_BYTES - 4 else "hex"  # a letter that was cut at our own limit
    return "hex" if "\0" in text else "text"


def view(body: bytes, kind: View, start: int = 0) -> Shown:
    """A body in one of its views, from a byte on."""
    if kind == "json":
        pretty = _pretty(body)
        if pretty is not None:
            return Shown("json", visible(pretty.decode()), 0, len(body))
        why = "is not JSON" if len(body) <= JSON_BYTES else "is too long to be shown as JSON"
        return Shown("json", "", 0, 0, f"the body {why}; look at it as text or hex, or download it")
    if kind == "hex":
        start = min(start, len(body)) // HEX_WIDTH * HEX_WIDTH
        part = body[start : start + HEX_BYTES]
        return Shown("hex", _dump(part, start), start, start + len(part))
    start = min(start, len(body))
    part = body[start : start + TEXT_BYTES]
    return Shown("text", visible(part.decode(errors="replace")), start, start + len(part))


def visible(text: str) -> str:
    """Text with small squares for what would be invisible, or would rearrange the rest."""
    return "".join(
        "▫" if unicodedata.category(letter) == "Cc" and letter not in "\n\t" else letter
        for letter in text.translate(BIDI)
    )


def _pretty(body: bytes) -> bytes | None:
    if not body or len(body) > JSON_BYTES:
        return None
    try:
        msgspec.json.decode(body)  # formatting alone would let some mistakes pass
        pretty = msgspec.json.format(body, indent=2)
        pretty.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return pretty


def _dump(part: bytes, start: int) -> str:
    lines = []
    for at in range(0, len(part), HEX_WIDTH):
        line = part[at : at + HEX_WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in line)
        lines.append(f"{start + at:08x}  {line[:8].hex(' '):23}  {line[8:].hex(' '):23}  {letters}")
    return "\n".join(lines)
