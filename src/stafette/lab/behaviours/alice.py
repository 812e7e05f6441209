"""Alice, the sender of FTaB."""

from __future__ import annotations

from stafette.lab.behaviours.parts import Spreader, Spreading


class Alice(Spreader):
    """Sends, and nothing else: a message to one queue or to several at once, drawn at random, for anyone (FTaB).

    FTaB varies the size of the message and the number of its target queues.
    """

    Parameters = Spreading

    async def step(self) -> None:
        """Send one message."""
        await self.spread()
