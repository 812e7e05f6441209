"""Carl, the client in FTaB's fire-and-forget load."""

from __future__ import annotations

from stafette.lab.behaviours.parts import OneQueue, OnOneQueue, Sender, Sending


class CarlParameters(OneQueue, Sending):
    """One queue, and what is sent to it."""


class Carl(OnOneQueue, Sender):
    """Puts requests for anyone into one queue, and never looks whether they have been served (FTaB)."""

    Parameters = CarlParameters

    async def step(self) -> None:
        """Send one request."""
        await self.me.send(self.queue, self.body(), priority=self.priority())
