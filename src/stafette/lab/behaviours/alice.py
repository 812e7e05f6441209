"""Alice, the sender of FTaB."""

from __future__ import annotations

from stafette.lab.behaviours.parts import QueueSender, QueueSendParameters


class Alice(QueueSender):
    """Only sends: a message for anyone, to one queue or to several at once, drawn at random (FTaB).

    FTaB varies the size of the message and the number of its target queues.
    """

    Parameters = QueueSendParameters

    async def step(self) -> None:
        """Send one message."""
        await self.send_message()
