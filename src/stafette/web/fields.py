"""What people type into forms and addresses, made into values; and values made into addresses again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

from stafette.errors import InvalidRequest
from stafette.model import QUEUE_OPTIONS, QueueOptions

BIGINT = 2**63
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 100 * 365 * 86400.0
"""A hundred years: beyond that a time cannot be told from a mistake."""


def address(path: str, **query: object) -> str:
    """A path with those parts of a query that say something."""
    said = {name: value for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(said)}" if said else path


def text(form: Mapping[str, object], name: str) -> str | None:
    """What stands in a field, or None when it is empty."""
    found = form.get(name)
    return found if isinstance(found, str) and found else None


def whole(form: Mapping[str, object], name: str, low: int = -BIGINT, high: int = BIGINT - 1) -> int | None:
    """A whole number."""
    written = (text(form, name) or "").strip()
    if not written:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", written) or not low <= int(written) <= high:
        limits = "" if low == -BIGINT and high == BIGINT - 1 else f" between {low:,} and {high:,}"
        raise InvalidRequest(f"{name}: {written[:40]!r} is not a whole number{limits}; correct it, or leave it empty")
    return int(written)


def queue_options(form: Mapping[str, object]) -> QueueOptions:
    """The options of a queue, each in a field of its name."""
    values: dict[str, object] = {}
    for name, option in QUEUE_OPTIONS.items():
        if option.kind == "flag":
            values[name] = bool(form.get(name))
        else:
            values[name] = whole(form, name, *option.bounds) if option.kind == "number" else text(form, name)
    return QueueOptions.from_values(values)


def seconds(form: Mapping[str, object], name: str) -> float | None:
    """A stretch of time: seconds, or with one of s, m, h, d."""
    written = (text(form, name) or "").strip()
    if not written:
        return None
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([a-z]*)", written)
    if found is None or found[2] not in UNITS or float(found[1]) * UNITS[found[2]] > LONGEST:
        raise InvalidRequest(f"{name}: {written[:40]!r} is not a time; write for example 90s, 10m, 2h or 1d")
    return float(found[1]) * UNITS[found[2]]


def headers(form: Mapping[str, object], name: str) -> dict[str, str] | None:
    """Headers of a message, one `name: value` on each line."""
    found: dict[str, str] = {}
    for line in (text(form, name) or "").splitlines():
        if not line.strip():
            continue
        header, colon, value = line.partition(":")
        if not colon or not header.strip():
            raise InvalidRequest(f"{name}: {line[:40]!r} is no header; write one `name: value` on each line")
        found[header.strip()] = value.strip()
    return found or None


def body(form: Mapping[str, object], name: str, kind: str) -> bytes:
    """What to send: text as it was typed, with plain line ends, or bytes in hexadecimal."""
    written = (text(form, name) or "").replace("\r\n", "\n")
    if kind != "hex":
        return written.encode()
    try:
        return bytes.fromhex(written)
    except ValueError:
        raise InvalidRequest(f"{name} is not hexadecimal; write pairs of 0–9 and a–f, or choose text") from None
