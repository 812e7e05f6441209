"""The pool of connections to PostgreSQL. One call is one stored function, hence one round trip and one commit.

Each module beside this one has the functions of one noun. `schema.py` and `laboratory.py` change tables, and need a
connection of their own for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import asyncpg

from stafette.database.connect import (
    COMMAND_SECONDS,
    CONNECT_SECONDS,
    SESSION_SETTINGS,
    Connection,
    Locked,
    connect,
    connect_any,
    connected,
    ends_connection,
    prepare_connection,
    translated_errors,
)
from stafette.database.durability import require_suitable
from stafette.database.schema import require_current
from stafette.errors import RequestTimeout, StafetteError, Unavailable

ACQUIRE_SECONDS = 10.0
"""How long a call may wait for a free connection."""

ALONE_SECONDS = 10.0
"""How long to try again what needs the catalog's lock alone, while an open transaction is in the way."""

ALONE_PAUSE_SECONDS = 0.2
"""Between two attempts, each of which makes others wait for 30 ms at most."""

RELEASE_SECONDS = 2.0
"""How long the server may take to cancel a call that took too long; after that its connection is dropped."""

PROBE_PAUSE, PROBE_SECONDS = 2.0, 5.0
"""How often the listening connection is probed, and how long the server may take to answer: it only reads its settings,
so a server that takes longer is frozen or cut off. Both together are below ten seconds."""

MAX_NOTIFICATIONS = 50_000
"""Between two probes. Brokers send each other fewer; any role of the database can send more, and each costs us time."""

LISTENING = "stafette, listening"
"""The name of the listening connection in pg_stat_activity."""

STANDBY_WAIT = "SyncRepWaitForLSN"
"""The function of PostgreSQL that warns when the wait for a synchronous standby is cancelled. Texts are translated."""

KEY_HOURS = "stafette.key_hours"
"""The name of a setting in PostgreSQL."""


class Pool:
    """A few connections to one database, which come back by themselves after a failure."""

    def __init__(self, url: str, *, unsafe_durability: bool = False) -> None:
        self._url = url
        self._unsafe_durability = unsafe_durability
        self._connections: asyncpg.Pool[asyncpg.Record]
        self._opened: WeakSet[Connection] = WeakSet()

    @classmethod
    async def open(
        cls, url: str, *, connections: int = 4, unsafe_durability: bool = False, key_hours: float | None = None
    ) -> Pool:
        """Connect, and make sure that schema, functions and durability are as we need them.

        `key_hours` is how long the keys of sends count; None: what the database says (key_lifetime.sql).
        """
        settings = SESSION_SETTINGS if key_hours is None else {**SESSION_SETTINGS, KEY_HOURS: f"{key_hours:.6f}"}
        pool = cls(url, unsafe_durability=unsafe_durability)
        async with connected(url) as probe:
            await require_current(probe)
            pool._connections = await asyncpg.create_pool(
                url,
                connect=connect_any,
                min_size=1,
                max_size=connections,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                max_inactive_connection_lifetime=0,
                server_settings=settings,
                init=pool._prepare,
                reset=_leave_as_is,
            )
        return pool

    async def _prepare(self, connection: Connection) -> None:
        """Check a new connection: behind the URL may be another server than before."""
        try:
            self._opened.add(connection)
            await require_suitable(connection, unsafe_durability=self._unsafe_durability)
            await prepare_connection(connection)
        except BaseException:
            connection.terminate()  # the server may be frozen by now, and would not answer a good-bye
            raise

    async def close(self) -> None:
        """Close all connections once their work is done."""
        await self._connections.close()

    def terminate_all(self) -> None:
        """Drop all connections: calls on them fail, later ones connect anew."""
        for connection in list(self._opened):
            connection.terminate()

    async def fetch(self, sql: str, *arguments: Any, seconds: float | None = None) -> list[asyncpg.Record]:
        """The rows of one call; it may take longer than usual when `seconds` says so."""
        warnings: list[str | None] = []

        def note(_connection: object, message: asyncpg.PostgresLogMessage) -> None:
            warnings.append(message.server_source_function)

        with translated_errors(self._url):
            async with self._connection() as connection:
                connection.add_log_listener(note)
                try:
                    rows: list[asyncpg.Record] = await connection.fetch(sql, *arguments, timeout=seconds)
                except asyncpg.PostgresError as error:
                    if ends_connection(error):
                        connection.terminate()
                        await self._connections.expire_connections()
                    raise
                finally:
                    with contextlib.suppress(asyncpg.InterfaceError):  # of a connection that has ended
                        connection.remove_log_listener(note)
        if STANDBY_WAIT in warnings:
            raise Unavailable(
                "somebody cancelled the wait for the synchronous standby; the request has taken effect on the primary"
                " alone, and would be undone by a failover",
                outcome="unknown",
            )
        return rows

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection for one call."""
        with translated_errors(self._url, outcome="not done"):
            connection = await self._connections.acquire(timeout=ACQUIRE_SECONDS)
        try:
            yield connection
        finally:
            await self._connections.release(connection, timeout=RELEASE_SECONDS)

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

    async def listen(self, channels: Mapping[str, Callable[[str], None]], *, on_listening: Callable[[], None]) -> None:
        """Hand each notification on these channels to the callback of its channel, until the connection breaks.

        It also ends when there are too many notifications; the caller may listen again after a while.

        This connection also watches the server for all others, as it is never busy: it is probed, and if the server is
        silent, all connections are dropped. So a slow call is not mistaken for a frozen server.
        """
        try:
            connection = await connect(self._url)
        except RequestTimeout:
            self.terminate_all()
            raise
        ended = asyncio.Event()
        notifications = 0

        def hand_over(callback: Callable[[str], None], payload: str) -> None:
            nonlocal notifications
            notifications += 1
            if notifications <= MAX_NOTIFICATIONS:
                callback(payload)
            else:
                ended.set()

        connection.add_termination_listener(lambda _: ended.set())
        try:
            with translated_errors(self._url):
                await connection.execute(f"SET application_name = '{LISTENING}'")
                for channel, callback in channels.items():
                    await connection.add_listener(
                        channel, lambda _connection, _pid, _channel, text, callback=callback: hand_over(callback, text)
                    )
            on_listening()
            while not ended.is_set():
                notifications = 0
                await self._probe(connection)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_PAUSE):
                        await ended.wait()
        finally:
            connection.terminate()
        if notifications > MAX_NOTIFICATIONS:
            raise Unavailable(
                f"more than {MAX_NOTIFICATIONS:,} notifications came within {PROBE_PAUSE:g} s; find the database role"
                " that floods our channels (pg_stat_activity)"
            )
        raise Unavailable("the connection that listens for notifications broke")

    async def _probe(self, connection: Connection) -> None:
        """Ask the server whether it is still suitable; if not, no connection to it is used again."""
        try:
            with translated_errors(self._url):
                await require_suitable(connection, unsafe_durability=self._unsafe_durability, seconds=PROBE_SECONDS)
        except RequestTimeout:
            self.terminate_all()
            raise
        except StafetteError:
            await self._connections.expire_connections()
            raise


async def _leave_as_is(_connection: object) -> None:
    """Our functions leave nothing behind in a session, so a returned connection needs no round trip to clean it."""
