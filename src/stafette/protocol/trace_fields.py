"""Outcomes: how a trace describes a request and its answer, the same in both tiers."""

from __future__ import annotations

import re
from typing import get_args

from stafette.protocol import messages as wire

OK = "ok"
EMPTY = "empty"
NOT_ACCEPTED = "NotAccepted"

OPERATIONS: dict[type, str] = {
    kind: re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower() for kind in get_args(wire.Request)
}
"""The name of each kind of request."""

SESSION = frozenset({wire.Hello, wire.Bye, wire.Cancel})
"""Requests that are about the session or about another request; they are not traced."""


def describe(request: wire.Request, answer: wire.Answer) -> tuple[str, int]:
    """The outcome, and the number of messages stored, handed out or deleted."""
    if isinstance(answer, wire.Sent):
        ids = answer.ids
        return OK, len(ids[0]) if len(ids) == 1 else sum(map(len, ids))
    if isinstance(answer, wire.Messages):
        return (OK if answer.messages else EMPTY), len(answer.messages)
    if isinstance(answer, wire.Failed):
        return answer.name, 0
    if isinstance(answer, wire.Leases):
        return (OK if answer.leases else EMPTY), len(answer.leases)
    if isinstance(answer, wire.Goodbye):
        return NOT_ACCEPTED, 0
    if isinstance(answer, wire.Counted):
        return OK, answer.count
    return OK, int(isinstance(request, wire.Ack))
