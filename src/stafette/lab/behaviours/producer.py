"""mlmq's PublicQueueProducer."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.base import Scene
from stafette.lab.behaviours.carl import Carl


class Producer(Carl):
    """Writes the same message again and again to one public queue (mlmq)."""

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self._message = super().body()

    def body(self) -> bytes:
        """The one it always writes."""
        return self._message
