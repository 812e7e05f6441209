"""The web application as a client: it sends and receives messages through a broker, as every client does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

import stafette.aio
from stafette.broker.secrets import hash_secret, matches
from stafette.client.aio import Client
from stafette.database.console import Console
from stafette.errors import AlreadyOnline, Unavailable

NAME = "console"
"""It is reserved: nobody else can register it."""
TIMEOUT = 10.0


class BrokerLink:
    """A connection to a broker, opened when it is first needed."""

    def __init__(self, url: str | None, console: Console, data: Path) -> None:
        self._url = url
        self._console = console
        self._data = data
        self._client: Client | None = None
        self._lock = asyncio.Lock()

    async def client(self) -> Client:
        """The connected client; it reconnects by itself."""
        async with self._lock:
            if self._client is None:
                self._client = await self._connect(await self._broker_url())
            return self._client

    async def _connect(self, url: str) -> Client:
        secret = self._secret()
        secret_hash = await self._console.claim_name(await asyncio.to_thread(hash_secret, secret))
        if await asyncio.to_thread(matches, secret, secret_hash):
            with contextlib.suppress(AlreadyOnline):
                return await stafette.aio.connect(url, name=NAME, secret=secret, timeout=TIMEOUT)
        # Another web process uses the name. Ours cannot be guessed, so nobody can have registered it.
        name = f"{NAME}-{secrets.token_hex(8)}"
        return await stafette.aio.connect(url, name=name, secret=secret, timeout=TIMEOUT)

    async def _broker_url(self) -> str:
        if self._url is not None:
            return self._url
        for broker in await self._console.brokers():
            if broker.alive and broker.figures and broker.figures.get("url"):
                return str(broker.figures["url"])
        raise Unavailable("no broker is running; start one with `stafette up` or `stafette broker`")

    def _secret(self) -> str:
        """Our secret as a client, so that nobody else can take the name; created once."""
        path = self._data / "web" / "client.secret"
        try:
            return path.read_text()
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            secret = secrets.token_urlsafe(24)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secret)
            return secret

    async def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
