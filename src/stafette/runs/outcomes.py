"""Groups of the names in trace rows: tiers, outcomes and operations, and the names for rows over all of them."""

from __future__ import annotations

TIERS = ("client", "broker")

SUCCESSES = frozenset({"ok", "empty"})
"""Outcomes of successful requests."""

UNANSWERED = frozenset({"Lost", "TooLate", "Cancelled", "HungUp"})
"""Outcomes, in the client tier only, of requests that were sent and never answered."""

UNCERTAIN = UNANSWERED | {"RequestTimeout", "Unavailable", "InternalError"}
"""Outcomes after which it is not known whether the request took effect."""

SENDING = frozenset({"send"})
RECEIVING = frozenset({"receive", "ack"})
"""Operations that deliver messages finally; a lease does so only with its ack."""
REMOVING = RECEIVING | {"purge"}
"""Operations whose `messages` have left the system."""
EMPTYING = frozenset({"delete_queue"})
"""Operations that may remove messages without counting them in the trace."""

ALL, ANSWERED = "all", "answered"
"""Operation and outcome of rows over all requests with one of the SUCCESSES."""
