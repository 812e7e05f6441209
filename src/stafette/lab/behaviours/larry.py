"""Larry, the one-way client of FTaB."""

from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours.parts import QueueUser, Relay, SendParameters
from stafette.model import Message


class LarryParameters(SendParameters):
    """Larry asks which queues hold messages for him, and the broker answers at once."""

    wait: float = Field(default=0.0, ge=0, le=10)
    """Seconds for which a step goes on asking; by default it asks once."""


class Larry(QueueUser, Relay):
    """Sends a message to another Larry through a queue, both drawn at random, then forwards what he receives (FTaB).

    He asks which queues hold messages for him, takes the first message of one of them, and sends it unchanged through
    another queue to another Larry. Give the Larrys queues of their own: they also take messages for anyone.
    """

    Parameters = LarryParameters

    async def await_message(self) -> Message | None:
        """Ask for a queue with a message for this Larry, and receive it."""
        queues = await self.retry(lambda: self.client.waiting_queues(limit=1))
        return await self.client.receive(queues[0].name) if queues else None

    async def forward(self, message: Message | None) -> None:
        """Send it to another Larry through any of the queues."""
        body, priority = (self.body(), self.priority()) if message is None else (message.body, message.priority)
        await self.client.send(self.any_queue(), body, receiver=self.client_context.another_client(), priority=priority)
