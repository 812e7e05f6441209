"""The body of a message as a page shows it: always as visible text, and at most one page of it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal

import msgspec

Format = Literal["text", "json", "hex"]

TEXT_BYTES = 256 * 1024
JSON_BYTES = 1024 * 1024
HEX_BYTES = 4 * 1024
"""What one page shows at most; the rest of a long body is on the next pages, all of it in the download."""
HEX_WIDTH = 16
BIDI = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "▫")
"""Direction marks, which would rearrange the text around them; shown as squares."""


@dataclass(frozen=True)
class BodyPart:
    """A body, or a part of it, ready for a page."""

    text: str
    start: int
    end: int
    """`text` shows the bytes from `start` up to, but without, `end`."""
    problem: str | None = None


def detect_format(body: bytes) -> Format:
    """The format in which a body is shown unless another one is requested."""
    if body[:64].lstrip()[:1] in (b"{", b"[") and _pretty(body) is not None:
        return "json"
    try:
        text = body[:TEXT_BYTES].decode()
    except UnicodeDecodeError as error:
        return "text" if error.start > TEXT_BYTES - 4 else "hex"  # a character that our own limit cut
    return "hex" if "\0" in text else "text"


def render_body(body: bytes, format: Format, start: int = 0) -> BodyPart:  # noqa: A002
    """A body in a format, from byte `start` on."""
    if format == "json":
        pretty = _pretty(body)
        if pretty is not None:
            return BodyPart(make_visible(pretty.decode()), 0, len(body))
        reason = "is not JSON" if len(body) <= JSON_BYTES else "is too long to be shown as JSON"
        return BodyPart("", 0, 0, f"the body {reason}; view it as text or hex, or download it")
    if format == "hex":
        start = min(start, len(body)) // HEX_WIDTH * HEX_WIDTH
        part = body[start : start + HEX_BYTES]
        return BodyPart(_hex_dump(part, start), start, start + len(part))
    start = min(start, len(body))
    part = body[start : start + TEXT_BYTES]
    return BodyPart(make_visible(part.decode(errors="replace")), start, start + len(part))


def make_visible(text: str) -> str:
    """Text with small squares for control characters and direction marks."""
    return "".join(
        "▫" if unicodedata.category(char) == "Cc" and char not in "\n\t" else char for char in text.translate(BIDI)
    )


def _pretty(body: bytes) -> bytes | None:
    if not body or len(body) > JSON_BYTES:
        return None
    try:
        msgspec.json.decode(body)  # formatting alone accepts some invalid JSON
        pretty = msgspec.json.format(body, indent=2)
        pretty.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return pretty


def _hex_dump(part: bytes, start: int) -> str:
    lines = []
    for offset in range(0, len(part), HEX_WIDTH):
        line = part[offset : offset + HEX_WIDTH]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in line)
        lines.append(f"{start + offset:08x}  {line[:8].hex(' '):23}  {line[8:].hex(' '):23}  {characters}")
    return "\n".join(lines)
