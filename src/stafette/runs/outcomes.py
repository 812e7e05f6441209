"""What the names in trace rows mean: tiers, outcomes and operations, and how rows over all of them are called."""

from __future__ import annotations

TIERS = ("client", "broker")

SUCCESSES = frozenset({"ok", "empty"})
"""Outcomes of requests that did what they were asked."""

UNANSWERED = frozenset({"Lost", "TooLate", "Cancelled", "HungUp"})
"""Outcomes, in the client tier only, of requests that were sent and never answered."""

UNCERTAIN = UNANSWERED | {"RequestTimeout", "Unavailable", "InternalError"}
"""Outcomes after which nobody knows whether the request took effect."""

SENDING = frozenset({"send"})
RECEIVING = frozenset({"receive", "ack"})
"""Operations that hand messages over for good; a lease does not, until its ack."""
REMOVING = RECEIVING | {"purge"}
"""Operations whose `messages` have left the system."""
EMPTYING = frozenset({"delete_queue"})
"""Operations that may remove messages without counting them in the trace."""

ALL, ANSWERED = "all", "answered"
"""What stands for the operation and the outcome in rows over everything that had one of the SUCCESSES."""
