"""mlmq's PublicQueueProducer."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.behaviour import ClientContext
from stafette.lab.behaviours.carl import Carl


class Producer(Carl):
    """Sends the same message again and again to one public queue (mlmq)."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self._body = super().body()

    def body(self) -> bytes:
        """The body of all its messages."""
        return self._body
