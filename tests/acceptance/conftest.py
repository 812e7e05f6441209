"""Two brokers over one database, and the few words in which the acceptance stories are told.

`connect` speaks to the first broker (`broker`) unless it is given the URL of the second (`elsewhere`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from stafette.broker import notifications
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.errors import StafetteError
from stafette.model import Message
from stafette.protocol import messages as wire
from stafette.protocol.frames import HEADER_BYTES, frame
from tests.integration.conftest import broker, brokers, connect, database, databases

__all__ = ["broker", "brokers", "connect", "database", "databases"]  # fixtures

Connect = Callable[..., Awaitable[Client]]
Brokers = Callable[..., Awaitable[tuple[Runtime, str]]]
Result = TypeVar("Result")

PATIENCE_SECONDS = 30.0
"""How long a story waits for what must come: only a failure ever takes so long."""

A_DAY = 86_400.0


@pytest.fixture(autouse=True)
def notifications_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No story may depend on the slow poll behind the notifications: a read that is not woken is seen to be missed."""
    monkeypatch.setattr(notifications, "POLL_SECONDS", A_DAY)


@pytest.fixture
async def elsewhere(brokers: Brokers) -> str:
    """The URL of a second broker over the same database."""
    _, url = await brokers()
    return url


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
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await action()
            except meanwhile:
                await asyncio.sleep(0)


async def until(done: Callable[[], bool], anybody: Client) -> None:
    """Let the broker work until something is so; each turn is a round trip to it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not done():
            await anybody.ping()


class Wire:
    """A bare socket to a broker: for what the client would never say, and for dying without a word."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, url: str) -> Wire:
        host, port = url.removeprefix("stafette://").split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    @classmethod
    async def session(cls, url: str, name: str) -> Wire:
        """One that has said hello and is welcome."""
        link = await cls.to(url)
        answer = await link.ask(wire.encode(wire.Hello(1, wire.VERSION, name)))
        if isinstance(answer, wire.Failed):
            await link.close()
            raise wire.to_error(answer)
        assert isinstance(answer, wire.Welcome)
        return link

    async def ask(self, payload: bytes) -> wire.Answer | None:
        """What the broker says to this; None when it hangs up."""
        self._writer.write(frame(payload))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                header = await self._reader.readexactly(HEADER_BYTES)
                return wire.decode_answer(await self._reader.readexactly(int.from_bytes(header, "big")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def die(self) -> None:
        """Vanish, as if the process had been killed."""
        self._writer.transport.abort()


async def raw_answers(url: str, *payloads: bytes) -> list[wire.Answer]:
    """What the broker says to these payloads on one bare socket: one answer to each, unless it hangs up before."""
    link = await Wire.to(url)
    answers = [await link.ask(payload) for payload in payloads]
    await link.close()
    return [answer for answer in answers if answer is not None]
