"""Bob, the reader of FTaB."""

from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours.parts import BatchParameters, QueueUser, Reader


class BobParameters(BatchParameters):
    """Bob's reads do not wait by default."""

    wait: float = Field(default=0.0, ge=0, le=10)
    """Seconds a read waits for a message."""


class Bob(QueueUser, Reader):
    """Only reads: the message of highest priority of a queue drawn at random, if there is one (FTaB)."""

    Parameters = BobParameters

    async def step(self) -> None:
        """Read from one queue."""
        await self.read_many(self.any_queue(), self.parameters.batch)
