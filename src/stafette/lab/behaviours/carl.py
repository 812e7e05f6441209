"""Carl, the client in FTaB's fire-and-forget load."""

from __future__ import annotations

from stafette.lab.behaviours.parts import OneQueueParameters, OneQueueUser, Sender, SendParameters


class CarlParameters(OneQueueParameters, SendParameters):
    """One queue, and what is sent to it."""


class Carl(OneQueueUser, Sender):
    """Sends requests for anyone to one queue, and does not wait for responses (FTaB)."""

    Parameters = CarlParameters

    async def step(self) -> None:
        """Send one request."""
        await self.client.send(self.queue, self.body(), priority=self.priority())
