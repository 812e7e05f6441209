"""What a request weighs: a message once for every queue, with what it costs beside its body."""

from __future__ import annotations

import pytest

from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from stafette.protocol.request_size import HEADER, SEEN_ANSWER, STORED_MESSAGE, request_bytes


@pytest.mark.parametrize(
    ("request_", "size"),
    [
        (wire.Send(1, [Draft(("jobs",), b"12345")]), STORED_MESSAGE + 5),
        (wire.Send(1, [Draft(("a", "b", "c"), b"12345")]), 3 * (STORED_MESSAGE + 5)),
        (wire.Send(1, [Draft(("a",), b"1"), Draft(("a", "b"), b"22")]), 3 * STORED_MESSAGE + 5),
        (wire.Send(1, [Draft(("a", "b"), b"", headers={"kind": "x"})]), 2 * (STORED_MESSAGE + HEADER + 5)),
        (wire.Send(1, [Draft(("jobs",), b"")], "key"), STORED_MESSAGE + 3),
        (wire.Echo(1, b"1234"), 4),
        (wire.Receive(1, Selection("jobs")), 0),
        (wire.Receive(1, Selection("jobs"), seen=(1, 2)), 2 * SEEN_ANSWER),
        (wire.Ack(1, 1, 1), 0),
    ],
)
def test_a_request_weighs(request_: wire.Request, size: int) -> None:
    assert request_bytes(request_) == size


def test_ten_thousand_small_drafts_in_one_request_are_within_what_a_client_may_have() -> None:
    request = wire.Send(1, [Draft(("jobs",), bytes(200)) for _ in range(10_000)])
    assert request_bytes(request) < 16 * 2**20
