"""A client that speaks the native protocol on a bare socket."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from stafette.protocol import messages as wire
from stafette.protocol.frames import HEADER_BYTES, frame
from tests.support.waiting import PATIENCE_SECONDS


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
