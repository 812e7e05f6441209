"""HTTP on a bare socket: for requests that no client would send, and for those that are never finished."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from tests.support.waiting import TIMEOUT_SECONDS


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


class RawHttp:
    """One connection to the console."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def connect(cls, url: str, tls: ssl.SSLContext | None = None) -> Self:
        """Connect, and say nothing yet."""
        address = urlsplit(url)
        assert address.hostname is not None
        reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
        return cls(reader, writer, address.netloc)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def begin(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Send a header, and perhaps a part of a body."""
        lines = {"Host": self._host, **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    async def answer(self, *, has_body: bool = True) -> Answer:
        """Wait for an answer, however much of the request there is; that to a HEAD has no body."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)) if has_body else 0)
        return Answer(int(head[0].split(" ")[1]), headers, body)

    async def end(self) -> bytes:
        """Wait until the console hangs up; returns what it still said."""
        rest = b""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with suppress(ConnectionError):
                while data := await self._reader.read(2**16):
                    rest += data
        return rest

    async def close(self) -> None:
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


Connect = Callable[..., Awaitable[RawHttp]]
"""To a URL, with TLS if there is a context for it."""


async def answer_to(
    url: str,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    has_body: bool = True,
) -> Answer:
    """The answer to a header and perhaps a part of a body, on a connection of its own."""
    connection = await RawHttp.connect(url)
    try:
        connection.begin(method, path, headers, body)
        return await connection.answer(has_body=has_body)
    finally:
        await connection.close()
