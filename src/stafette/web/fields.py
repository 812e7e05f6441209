"""Fields of forms and query strings, parsed into values; and URLs built from values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

from stafette.errors import InvalidRequest
from stafette.model import QUEUE_OPTIONS, QueueOptions

BIGINT = 2**63
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
MAX_SECONDS = 100 * 365 * 86400.0
"""A hundred years; a longer time is taken for a mistake."""


def build_url(path: str, **query: object) -> str:
    """A path with a query string of all values that are not empty."""
    parameters = {name: value for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def text(form: Mapping[str, object], name: str) -> str | None:
    """The text of a field, or None if it is empty."""
    value = form.get(name)
    return value if isinstance(value, str) and value else None


def integer(form: Mapping[str, object], name: str, low: int = -BIGINT, high: int = BIGINT - 1) -> int | None:
    """A whole number, or None if the field is empty."""
    raw = (text(form, name) or "").strip()
    if not raw:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", raw) or not low <= int(raw) <= high:
        limits = "" if low == -BIGINT and high == BIGINT - 1 else f" between {low:,} and {high:,}"
        raise InvalidRequest(f"{name}: {raw[:40]!r} is not a whole number{limits}; correct it, or leave it empty")
    return int(raw)


def queue_options(form: Mapping[str, object]) -> QueueOptions:
    """The options of a queue; each has a field of its name."""
    values: dict[str, object] = {}
    for name, option in QUEUE_OPTIONS.items():
        if option.kind == "flag":
            values[name] = bool(form.get(name))
        else:
            values[name] = integer(form, name, *option.bounds) if option.kind == "number" else text(form, name)
    return QueueOptions.from_values(values)


def seconds(form: Mapping[str, object], name: str) -> float | None:
    """A time in seconds, raw with or without one of the units s, m, h, d."""
    raw = (text(form, name) or "").strip()
    if not raw:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([a-z]*)", raw)
    if match is None or match[2] not in UNITS or float(match[1]) * UNITS[match[2]] > MAX_SECONDS:
        raise InvalidRequest(f"{name}: {raw[:40]!r} is not a time; write for example 90s, 10m, 2h or 1d")
    return float(match[1]) * UNITS[match[2]]


def headers(form: Mapping[str, object], name: str) -> dict[str, str] | None:
    """Headers of a message, one `name: value` on each line."""
    values: dict[str, str] = {}
    for line in (text(form, name) or "").splitlines():
        if not line.strip():
            continue
        header, colon, value = line.partition(":")
        if not colon or not header.strip():
            raise InvalidRequest(f"{name}: {line[:40]!r} is not a header; write one `name: value` on each line")
        values[header.strip()] = value.strip()
    return values or None


def body(form: Mapping[str, object], name: str, kind: str) -> bytes:
    """The body of a message: text with plain line ends, or bytes raw in hexadecimal."""
    raw = (text(form, name) or "").replace("\r\n", "\n")
    if kind != "hex":
        return raw.encode()
    try:
        return bytes.fromhex(raw)
    except ValueError:
        raise InvalidRequest(f"{name} is not hexadecimal; write pairs of 0–9 and a–f, or choose text") from None
