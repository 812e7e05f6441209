"""How to reach PostgreSQL, and what each failure means for the person who tried.

Every error of asyncpg or the operating system becomes one of ours here and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import msgspec

from stafette.errors import InternalError, InvalidRequest, RequestTimeout, StafetteError, Unavailable, from_sqlstate

CONNECT_SECONDS = 10.0
"""How long all servers in a URL may take together to let us in."""
COMMAND_SECONDS = 30.0
OLDEST_POSTGRESQL = 15

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Plans of ours are guarded, not costed: a queue's size changes faster than its statistics. And functions rely on seeing
# what others committed while they waited for a lock, whatever the database's default is.
SESSION_SETTINGS = {
    "application_name": "stafette",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_isolation": "read committed",
}


class Unstorable(InvalidRequest):
    """A value that PostgreSQL cannot hold, such as a text with a zero byte."""


class Locked(Unavailable):
    """A lock that another transaction holds was not to be had in time; nothing was done."""

    outcome = "not done"


class Unreadable(InternalError):
    """A stored message that no client can be sent; it stays where it is (functions/messages/refuse_unreadable.sql)."""


_UNREADABLE_SQLSTATE = "ST301"


def without_password(url: str) -> str:
    """A database URL that may be shown."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1@", url)


async def prepare_connection(connection: Connection) -> None:
    """Teach a new connection to speak jsonb."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: msgspec.json.encode(value).decode(),
        decoder=_decode_json,
    )


def _decode_json(text: str) -> Any:
    """A jsonb value; numbers that are out of Python's or our reach are shown as texts."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text, parse_int=str, parse_float=str)


async def connect(url: str) -> Connection:
    """Open one connection, checked for a version that will do."""
    with translated_errors(url):
        check_url(url)
        connection = await connect_any(
            url, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=SESSION_SETTINGS
        )
        await prepare_connection(connection)
    major = connection.get_server_version().major
    if major < OLDEST_POSTGRESQL:
        await connection.close()
        raise InternalError(
            f"{without_password(url)} is PostgreSQL {major}; Stafette needs {OLDEST_POSTGRESQL} or newer"
        )
    return connection


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """One connection, closed at the end; what goes wrong with PostgreSQL inside is an error of ours."""
    connection = await connect(url)
    try:
        with translated_errors(url):
            yield connection
    finally:
        await connection.close()


async def connect_any(dsn: str | None = None, *, timeout: float = CONNECT_SECONDS, **options: Any) -> Connection:
    """Connect to the first server in a URL that will do, as asyncpg's own `connect` (and its pool) would.

    But that gives all servers one time together, and one that is mute would leave none for the next.
    """
    *others, last = _servers(dsn or "")
    seconds = timeout / (len(others) + 1)
    for server in others:
        try:
            return await asyncpg.connect(server, timeout=seconds, **options)
        except (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched):
            continue
    return await asyncpg.connect(last, timeout=seconds, **options)


def _servers(url: str) -> list[str]:
    """The URL once for each server that it names."""
    parts = urlsplit(url)
    login, at, servers = parts.netloc.rpartition("@")
    if "," not in servers:
        return [url]
    return [urlunsplit(parts._replace(netloc=f"{login}{at}{server}")) for server in servers.split(",")]


def check_url(url: str) -> None:
    """Refuse what is not a PostgreSQL URL."""
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise InvalidRequest(
            f"{without_password(url)!r} is not a database URL; write postgresql://user@host:5432/database"
        )


@contextmanager
def translated_errors(url: str) -> Iterator[None]:
    """Turn whatever goes wrong with PostgreSQL inside into an error of ours."""
    try:
        yield
    except StafetteError:
        raise
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        raise Unstorable(f"the database cannot hold that value: {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise Locked(str(error)) from error
    except asyncpg.QueryCanceledError as error:
        raise RequestTimeout(f"the database cancelled the request: {error}") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise Unavailable(
            f"the database refused to log us in: {error}; check user and password in the URL", sentence=_UNREACHABLE
        ) from error
    except asyncpg.InvalidCatalogNameError as error:
        raise Unavailable(
            f"the server has no such database: {error}; create it, or correct the URL", sentence=_UNREACHABLE
        ) from error
    except asyncpg.PostgresError as error:
        raise _from_postgres(error, url) from error
    except TimeoutError as error:
        raise RequestTimeout(
            f"the database at {without_password(url)} did not answer in time",
            sentence="the database did not answer in time",
        ) from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The last: asyncpg's word for a connection on which the server has said good-bye but not yet hung up.
        raise Unavailable(
            f"cannot reach the database at {without_password(url)}: {error};"
            " check that it runs and that the URL is right",
            sentence=_UNREACHABLE,
        ) from error


_UNREACHABLE = "the database cannot be reached; try again, or ask the operator, who finds the reason in the log"
_BROKEN = "the database failed; ask the operator, who finds the reason in the log"

# SQLSTATE classes in which a repetition may succeed: connection, transaction rollback, out of resources, operator
# intervention (a server that starts or stops), and locks.
_PASSING = ("08", "40", "53", "57", "55")


async def server_version(connection: Connection) -> str:
    """PostgreSQL's version, as the server tells it."""
    return str(await connection.fetchval("SHOW server_version"))


async def server_time(connection: Connection) -> float:
    """The server's clock: seconds since the epoch."""
    return float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))


def _from_postgres(error: asyncpg.PostgresError, url: str) -> StafetteError:
    sqlstate = error.sqlstate or ""
    if sqlstate == _UNREADABLE_SQLSTATE:
        return Unreadable(str(error), outcome="not done")
    if ours := from_sqlstate(sqlstate, str(error)):
        return ours
    if sqlstate[:2] in _PASSING:
        return Unavailable(
            f"the database at {without_password(url)} cannot serve us now: {error}; try again",
            sentence="the database cannot serve this request now; try again",
        )
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return InternalError(
            f"the database role lacks a right: {error}; run as the role that ran `stafette db migrate`",
            sentence=_BROKEN,
        )
    if isinstance(error, asyncpg.InvalidSchemaNameError | asyncpg.UndefinedFunctionError | asyncpg.UndefinedTableError):
        return InternalError(
            f"the database has no schema for Stafette: {error}; run `stafette db migrate`", sentence=_BROKEN
        )
    return InternalError(f"the database answered {sqlstate}: {error}", sentence=_BROKEN)
