"""Bodies are bounded one by one and together."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from starlette.exceptions import HTTPException

from stafette.errors import Overloaded
from stafette.web.bodies import BODY_BYTES, BYTES_IN_FLIGHT, LOGIN_BYTES, BodyBudget, limited
from stafette.web.guard import body_limit


async def test_chunks_count_together() -> None:
    chunks = iter([b"12345", b"67890", b"1"])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": next(chunks), "more_body": True}

    receive_within_limit = limited(receive, 10)
    assert [(await receive_within_limit())["body"] for _ in range(2)] == [b"12345", b"67890"]
    with pytest.raises(HTTPException) as refused:
        await receive_within_limit()
    assert refused.value.status_code == 413


def test_many_at_once_are_refused_and_room_comes_back() -> None:
    budget = BodyBudget(10)
    with ExitStack() as under_way:
        under_way.enter_context(budget.reserve(6))
        with pytest.raises(Overloaded), budget.reserve(5):
            pass
        under_way.enter_context(budget.reserve(4))
    with budget.reserve(10):
        pass


def test_there_is_room_for_the_largest_message() -> None:
    assert BODY_BYTES <= BYTES_IN_FLIGHT


@pytest.mark.parametrize(("path", "limit"), [("/login", LOGIN_BYTES), ("/static/x.js", 0), ("/api/openapi.json", 0)])
def test_strangers_take_no_room_for_bodies(path: str, limit: int) -> None:
    assert body_limit(path) == limit
