"""mlmq's OneWayClient."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.behaviour import ClientContext
from stafette.lab.behaviours.parts import Relay, SendParameters, random_body
from stafette.model import Message


class OneWay(Relay):
    """Sends a message to another client's personal queue, then forwards the messages of its own queue (mlmq).

    A body begins with a counter, which grows by one each time the message is relayed.
    """

    Parameters = SendParameters

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self.largest_counter = 0
        """Of the messages received so far."""

    async def await_message(self) -> Message | None:
        """The next message of the personal queue."""
        return await self.read(f"@{self.client_context.name}")

    async def forward(self, message: Message | None) -> None:
        """Send it to the personal queue of another client, with a larger counter."""
        if message is None:
            counter, size, priority = 0, self.size(), self.priority()
        else:
            counter, size, priority = read_counter(message.body), len(message.body), message.priority
            self.largest_counter = max(self.largest_counter, counter)
            counter += 1
        prefix = b"%d " % counter
        body = prefix + random_body(max(0, size - len(prefix)), self.rng)
        await self.client.send(f"@{self.client_context.another_client()}", body, priority=priority)


def read_counter(body: bytes) -> int:
    """The number that a body begins with; 0 if there is none."""
    digits = body[:20].partition(b" ")[0]
    return int(digits) if digits.isdigit() else 0
