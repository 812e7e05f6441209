"""Larry, the one-way client of FTaB."""

from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours.parts import OnQueues, Relay, Sending
from stafette.model import Message


class LarryParameters(Sending):
    """Larry asks which queues hold something for him, which is answered at once."""

    wait: float = Field(default=0.0, ge=0, le=10)
    """Seconds within one step that Larry goes on asking; by default one step asks once."""


class Larry(OnQueues, Relay):
    """Sends a message to another Larry through a queue, both drawn at random, then bounces what comes for him (FTaB).

    To find it he asks which queues hold messages for him and takes the first from one of them. He sends it on, as it
    is, through another queue to another Larry. Give the Larrys queues of their own: what is for anyone they take too.
    """

    Parameters = LarryParameters

    async def await_message(self) -> Message | None:
        """Ask for a queue with something for this Larry, and take it."""
        waiting = await self.retry(lambda: self.me.waiting_queues(limit=1))
        return await self.me.receive(waiting[0].name) if waiting else None

    async def forward(self, message: Message | None) -> None:
        """Send it to another Larry through any of the queues."""
        body, priority = (self.body(), self.priority()) if message is None else (message.body, message.priority)
        await self.me.send(self.any_queue(), body, receiver=self.scene.another(), priority=priority)
