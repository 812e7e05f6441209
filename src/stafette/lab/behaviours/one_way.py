"""mlmq's OneWayClient."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.base import Scene
from stafette.lab.behaviours.parts import Relay, Sending, noise
from stafette.model import Message


class OneWay(Relay):
    """Sends a message to another's personal queue, then forwards what comes to its own to somebody else (mlmq).

    A body begins with a counter, which grows by one each time the message is relayed.
    """

    Parameters = Sending

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self.largest = 0
        """The largest counter seen in a message that came."""

    async def await_message(self) -> Message | None:
        """What comes to the personal queue."""
        return await self.read(f"@{self.scene.name}")

    async def forward(self, message: Message | None) -> None:
        """Send it to the personal queue of another client, with a larger counter."""
        if message is None:
            counter, size, priority = 0, self.size(), self.priority()
        else:
            counter, size, priority = counter_of(message.body), len(message.body), message.priority
            self.largest = max(self.largest, counter)
            counter += 1
        start = b"%d " % counter
        body = start + noise(max(0, size - len(start)), self.scene.chance)
        await self.me.send(f"@{self.scene.another()}", body, priority=priority)


def counter_of(body: bytes) -> int:
    """The number a body begins with; 0 when somebody else wrote it."""
    digits = body[:20].partition(b" ")[0]
    return int(digits) if digits.isdigit() else 0
