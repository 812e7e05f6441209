"""mlmq's PublicQueueConsumer."""

from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours.rick import Rick, RickParameters


class ConsumerParameters(RickParameters):
    """A constant rate needs reads that do not wait, which is the default here."""

    wait: float = Field(default=0.0, ge=0, le=10)
    """Seconds a read waits for a message."""


class Consumer(Rick):
    """Reads from one public queue, empty or not (mlmq).

    mlmq's consumer reads at a constant rate: give the group a rate with constant arrivals.
    """

    Parameters = ConsumerParameters
