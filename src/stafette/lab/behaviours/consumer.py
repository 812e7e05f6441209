"""mlmq's PublicQueueConsumer."""

from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours.rick import Rick, RickParameters


class ConsumerParameters(RickParameters):
    """At a constant rate means: without waiting."""

    wait: float = Field(default=0.0, ge=0, le=10)
    """Seconds a read waits for a message; the consumer, unlike others, does not wait unless it is told to."""


class Consumer(Rick):
    """Tries to read from one public queue, whether there is something or not (mlmq).

    mlmq's does it at a constant rate: give its group a rate with constant arrivals.
    """

    Parameters = ConsumerParameters
