"""What tests of brokers in this process share: how they start them, and what they do with clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.errors import StafetteError
from stafette.model import Message
from tests.support.waiting import TIMEOUT_SECONDS

Connect = Callable[..., Awaitable[Client]]
"""Connects a client by its name, to a URL if one is given."""
StartBroker = Callable[..., Awaitable[tuple[Runtime, str]]]
"""Starts a broker with limits; returns it and its URL."""
Result = TypeVar("Result")


def got(message: Message | None) -> Message:
    """The message, which must be there."""
    assert message is not None
    return message


async def drained(reader: Client, queue: str, **options: Any) -> list[str]:
    """Pop until there is nothing left; returns the texts in the order in which they came."""
    texts = []
    while message := await reader.receive(queue, **options):
        texts.append(message.text)
    return texts


async def when_it_works(
    action: Callable[[], Awaitable[Result]], meanwhile: type[StafetteError] | tuple[type[StafetteError], ...]
) -> Result:
    """Try until it works; until then only these errors may come."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            try:
                return await action()
            except meanwhile:
                await asyncio.sleep(0)
