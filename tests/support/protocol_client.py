"""A client that speaks the native protocol on a bare socket: for what our clients would never say or do."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from stafette.errors import StafetteError
from stafette.protocol import messages as wire
from stafette.protocol.frames import FrameReader, frame
from tests.support.waiting import TIMEOUT_SECONDS


def request(*fields: object) -> bytes:
    """The frame of a request, or of what only looks like one."""
    return frame(msgspec.msgpack.encode(fields))


class ProtocolClient:
    """One connection. It does not come back by itself, and sends whatever it is given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._frames = FrameReader(2**30)
        self._answers: deque[wire.Answer] = deque()
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url: str, *, limit: int = 2**20, buffer: int | None = None) -> Self:
        """Connect, without a hello; with a small limit and buffer, one that leaves answers where they are."""
        address = urlsplit(url)
        raw = socket.socket()
        if buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, (address.hostname, address.port))
        return cls(*await asyncio.open_connection(sock=raw, limit=limit))

    @classmethod
    async def open(cls, url: str, name: str, **options: Any) -> Self:
        """One that has said hello and is welcome; if it is not, the broker's error."""
        client = await cls.connect(url)
        try:
            await client.hello(name, **options)
        except StafetteError:
            await client.close()
            raise
        return client

    async def hello(self, name: str, **options: Any) -> wire.Welcome:
        self.send(wire.Hello(1, wire.VERSION, name, **options))
        answer = await self.answer()
        if isinstance(answer, wire.Failed):
            raise wire.to_error(answer)
        assert isinstance(answer, wire.Welcome), answer
        return answer

    @property
    def address(self) -> tuple[str, int]:
        """This end of the connection."""
        address: tuple[str, int] = self._writer.get_extra_info("sockname")
        return address

    def write(self, *pieces: bytes) -> None:
        self._writer.write(b"".join(pieces))

    def send(self, *requests: wire.Request) -> None:
        self.write(*(frame(wire.encode(each)) for each in requests))

    async def skip(self, size: int) -> None:
        """Take so many bytes off the connection, unread."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await self._reader.readexactly(size)

    async def read(self) -> bool:
        """Read what comes next, if only a part of an answer; False when the broker has hung up."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                data = await self._reader.read(2**20)
        except ConnectionError:  # it hung up on something that it had not read
            return False
        self._answers.extend(map(wire.decode_answer, self._frames.feed(data)))
        return bool(data)

    def take_answers(self) -> list[wire.Answer]:
        """All that have been read."""
        answers, self._answers = self._answers, deque()
        return list(answers)

    async def answer_or_end(self) -> wire.Answer | None:
        """The next answer; None when the broker has hung up."""
        while not self._answers:
            if not await self.read():
                return None
        return self._answers.popleft()

    async def answer(self) -> wire.Answer:
        """The next answer."""
        answer = await self.answer_or_end()
        assert answer is not None, "the broker hung up"
        return answer

    async def ask(self, *fields: object) -> wire.Answer:
        self.write(request(*fields))
        return await self.answer()

    async def rest(self) -> list[wire.Answer]:
        """All answers until the broker hangs up."""
        while await self.read():
            pass
        return self.take_answers()

    async def ping(self) -> None:
        self.send(wire.Echo(9, b""))
        assert isinstance(await self.answer(), wire.Echoed)

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Vanish, as if the process had been killed."""
        self._writer.transport.abort()


async def raw_answers(url: str, *payloads: bytes) -> list[wire.Answer]:
    """What the broker says to these payloads on one bare socket: one answer to each, unless it hangs up before."""
    client = await ProtocolClient.connect(url)
    answers = []
    for payload in payloads:
        client.write(frame(payload))
        answers.append(await client.answer_or_end())
    await client.close()
    return [answer for answer in answers if answer is not None]
