"""Bob, the reader of FTaB."""

from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours.parts import Batching, OnQueues, Reader


class BobParameters(Batching):
    """Bob looks and goes on to the next queue."""

    wait: float = Field(default=0.0, ge=0, le=10)
    """Seconds a read waits for a message; Bob, unlike others, does not wait unless he is told to."""


class Bob(OnQueues, Reader):
    """Reads, and nothing else: takes the message of highest priority from a queue drawn at random, if any (FTaB)."""

    Parameters = BobParameters

    async def step(self) -> None:
        """Look into one queue."""
        await self.read_many(self.any_queue(), self.parameters.batch)
