"""Pages of long lists: how much fits on one, and where the next begins, written as a text that a URL can carry."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stafette.errors import InvalidRequest

LARGEST_PAGE = 1_000

_POSITION = re.compile(r"\d{1,19}(\.\d{1,19}){0,3}")


def check_limit(limit: int) -> int:
    """The limit, if a page can hold so much."""
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidRequest(f"limit {limit} is not between 1 and {LARGEST_PAGE}")
    return limit


def format_position(position: Sequence[int]) -> str:
    """Where a page of messages ended, as text."""
    return ".".join(map(str, position))


def parse_position(after: str | None) -> list[int] | None:
    """Where a page of messages ended."""
    if after is None:
        return None
    if not _POSITION.fullmatch(after):
        raise _not_a_position(after)
    return [int(part) for part in after.split(".")]


def parse_queue_position(after: str | None) -> tuple[int | None, str | None]:
    """Where a page of queues ended: the key it is sorted by, and the name."""
    if after is None:
        return None, None
    key, colon, name = after.partition(":")
    if not colon or not re.fullmatch(r"-?\d{1,19}", key):
        raise _not_a_position(after)
    return int(key), name


def _not_a_position(after: str) -> InvalidRequest:
    return InvalidRequest(f"{after!r} is not where a page ended; begin with the first")
