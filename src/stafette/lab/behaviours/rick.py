"""Rick, the server in FTaB's fire-and-forget load."""

from __future__ import annotations

from stafette.lab.behaviours.parts import Batching, OneQueue, OnOneQueue, Reader


class RickParameters(OneQueue, Batching):
    """One queue, and how to read it."""


class Rick(OnOneQueue, Reader):
    """Serves Carl's requests by taking them from their queue; nobody gets a response (FTaB)."""

    Parameters = RickParameters

    async def step(self) -> None:
        """Take one request, or a batch of them."""
        await self.read_many(self.queue, self.parameters.batch)
