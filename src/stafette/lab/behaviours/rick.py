"""Rick, the server in FTaB's fire-and-forget load."""

from __future__ import annotations

from stafette.lab.behaviours.parts import BatchParameters, OneQueueParameters, OneQueueUser, Reader


class RickParameters(OneQueueParameters, BatchParameters):
    """One queue, and how to read it."""


class Rick(OneQueueUser, Reader):
    """Receives Carl's requests from their queue, and does not respond (FTaB)."""

    Parameters = RickParameters

    async def step(self) -> None:
        """Receive one request, or a batch."""
        await self.read_many(self.queue, self.parameters.batch)
