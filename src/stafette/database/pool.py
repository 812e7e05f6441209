"""The pool of connections to PostgreSQL. One call is one stored function, hence one round trip and one commit.

Each module beside this one has the functions of one noun. `schema.py` and `laboratory.py` change tables, and need a
connection of their own for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import asyncpg

from stafette.database.connect import (
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    SESSION_SETTINGS,
    Locked,
    connect,
    connect_any,
    connected,
    prepare_connection,
    translated_errors,
)
from stafette.database.schema import require_current, require_durability
from stafette.errors import Unavailable

ACQUIRE_SECONDS = 10.0
"""How long a call may wait for a free connection."""

ALONE_SECONDS = 10.0
"""How long to try again what needs the catalog's lock alone, while an open transaction is in the way."""

ALONE_PAUSE_SECONDS = 0.2
"""Between two attempts, each of which makes others wait for 30 ms at most."""


KEY_HOURS = "stafette.key_hours"
"""The name of a setting in PostgreSQL."""


class Pool:
    """A few connections to one database, which come back by themselves after a failure."""

    def __init__(self, url: str, connections: asyncpg.Pool[asyncpg.Record]) -> None:
        self._url = url
        self._connections = connections

    @classmethod
    async def open(
        cls, url: str, *, connections: int = 4, unsafe_durability: bool = False, key_hours: float | None = None
    ) -> Pool:
        """Connect, and make sure that schema, functions and durability are as we need them.

        `key_hours` is how long the keys of sends count; None: what the database says (key_lifetime.sql).
        """
        settings = SESSION_SETTINGS if key_hours is None else {**SESSION_SETTINGS, KEY_HOURS: f"{key_hours:.6f}"}
        async with connected(url) as probe:
            await require_current(probe)
            if not unsafe_durability:
                await require_durability(probe)
            pool = await asyncpg.create_pool(
                url,
                connect=connect_any,
                min_size=1,
                max_size=connections,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                max_inactive_connection_lifetime=0,
                server_settings=settings,
                init=prepare_connection,
                reset=_leave_as_is,
            )
        return cls(url, pool)

    async def close(self) -> None:
        """Close all connections once their work is done."""
        await self._connections.close()

    async def fetch(self, sql: str, *arguments: Any, seconds: float | None = None) -> list[asyncpg.Record]:
        """The rows of one call; it may take longer than usual when `seconds` says so."""
        with translated_errors(self._url):
            async with self._connections.acquire(timeout=ACQUIRE_SECONDS) as connection:
                return await connection.fetch(sql, *arguments, timeout=seconds)

    async def value(self, sql: str, *arguments: Any) -> Any:
        """The one value of a call."""
        return (await self.fetch(sql, *arguments))[0][0]

    async def value_alone(self, sql: str, *arguments: Any) -> Any:
        """The value of a call that deletes or purges: it is repeated while an open transaction is in its way."""
        deadline = time.monotonic() + ALONE_SECONDS
        while time.monotonic() + ALONE_PAUSE_SECONDS < deadline:
            with contextlib.suppress(Locked):
                return await self.value(sql, *arguments)
            await asyncio.sleep(ALONE_PAUSE_SECONDS)  # without a connection
        return await self.value(sql, *arguments)

    async def listen(self, channels: Mapping[str, Callable[[str], None]]) -> None:
        """Hand each notification on these channels to the callback of its channel, until the connection breaks."""
        connection = await connect(self._url)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            with translated_errors(self._url):
                for channel, callback in channels.items():
                    await connection.add_listener(
                        channel, lambda _connection, _pid, _channel, text, callback=callback: callback(text)
                    )
            await ended.wait()
        finally:
            connection.terminate()
        raise Unavailable("the connection that listens for notifications broke")


async def _leave_as_is(_connection: object) -> None:
    """Our functions leave nothing behind in a session, so a returned connection needs no round trip to clean it."""
