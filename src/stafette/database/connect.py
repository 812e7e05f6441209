"""How to reach PostgreSQL, and what each failure means for the person who tried.

Every error of asyncpg or the operating system becomes one of ours here and nowhere else.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg
import msgspec

from stafette.database.masking import masked, without_secrets
from stafette.errors import (
    InternalError,
    InvalidRequest,
    RequestOutcome,
    RequestTimeout,
    StafetteError,
    Unavailable,
    from_sqlstate,
)

CONNECT_SECONDS = 10.0
"""How long all servers in a URL may take together to let us in."""
COMMAND_SECONDS = 30.0
HEAD_START_SECONDS = 0.5
"""How long one server in a URL may be silent before the next is tried beside it."""
OLDEST_POSTGRESQL = 15

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Plans of ours are guarded, not costed: a queue's size changes faster than its statistics. Functions rely on seeing
# what others committed while they waited for a lock, whatever the database's default is. Warnings are read: one says
# that a commit has not waited for its standby.
SESSION_SETTINGS = {
    "application_name": "stafette",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_isolation": "read committed",
    "client_min_messages": "warning",
}


class Unstorable(InvalidRequest):
    """A value that PostgreSQL cannot hold, such as a text with a zero byte."""


class Locked(Unavailable):
    """A lock that another transaction holds was not to be had in time; nothing was done."""

    outcome: RequestOutcome = "not done"


class Unreadable(InternalError):
    """A stored message that no client can be sent; it stays where it is (functions/messages/refuse_unreadable.sql)."""


_UNREADABLE_SQLSTATE = "ST301"


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
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await connect_any(url, command_timeout=COMMAND_SECONDS, server_settings=SESSION_SETTINGS)
            await prepare_connection(connection)
    major = connection.get_server_version().major
    if major < OLDEST_POSTGRESQL:
        await connection.close()
        raise InternalError(f"{masked(url)} is PostgreSQL {major}; Stafette needs {OLDEST_POSTGRESQL} or newer")
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
    """Connect to a server in a URL that will do, as asyncpg's own `connect` (and its pool) would.

    But that tries one server after the other, and one that is frozen would take the time of all. Here the next joins in
    when one is silent, and while one is silent the others are asked again: one of them may be promoted meanwhile. Of
    several servers only one that takes writes will do, unless the URL says otherwise.
    """
    url = dsn or ""
    if _names_several(url) and "target_session_attrs" not in parse_qs(urlsplit(url).query):
        options["target_session_attrs"] = "read-write"
    servers = _servers(url)
    now = asyncio.get_running_loop().time
    deadline = now() + timeout
    attempts: dict[str, asyncio.Task[Connection]] = {}
    errors: list[BaseException] = []
    try:
        for turn, server in enumerate(itertools.cycle(servers), start=1):
            if server not in attempts:
                seconds = max(0.0, deadline - now())
                attempts[server] = asyncio.create_task(asyncpg.connect(server, timeout=seconds, **options))
            await asyncio.wait(
                attempts.values(),
                timeout=HEAD_START_SECONDS if len(servers) > 1 else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for ended in [server for server, attempt in attempts.items() if attempt.done()]:
                attempt = attempts.pop(ended)
                if (error := attempt.exception()) is None:
                    return attempt.result()
                errors.append(error)
            if turn >= len(servers) and not attempts:
                break
    finally:
        for attempt in attempts.values():
            attempt.add_done_callback(_give_up)
            attempt.cancel()
    error = next((error for error in errors if not isinstance(error, _PASSED_OVER)), errors[-1])
    if isinstance(error, ValueError) and not isinstance(error, asyncpg.InterfaceError):
        raise _invalid_url(url) from None  # such as a port that is not a number; the text would show the URL's parts
    raise error


# Of a server with one of these another may be able to do what it cannot; any other error says more than these.
_PASSED_OVER = (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched)


def _give_up(attempt: asyncio.Task[Connection]) -> None:
    """End an attempt that is not needed any more, even if it has just succeeded."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


def _names_several(url: str) -> bool:
    """Whether a URL names several servers: where it has its host, or in its options."""
    parts = urlsplit(url)
    return any("," in hosts for hosts in (parts.netloc.rpartition("@")[2], *parse_qs(parts.query).get("host", ())))


def _servers(url: str) -> list[str]:
    """The URL once for each server that it names."""
    parts = urlsplit(url)
    login, at, servers = parts.netloc.rpartition("@")
    if "," not in servers:
        return [url]
    return [urlunsplit(parts._replace(netloc=f"{login}{at}{server}")) for server in dict.fromkeys(servers.split(","))]


def check_url(url: str) -> None:
    """Refuse what is not a PostgreSQL URL."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:  # its text has the password in it
        scheme = ""
    if scheme not in ("postgresql", "postgres"):
        raise _invalid_url(url)


def _invalid_url(url: str) -> InvalidRequest:
    return InvalidRequest(f"{masked(url)!r} is not a database URL; write postgresql://user@host:5432/database")


@contextmanager
def translated_errors(url: str, *, outcome: RequestOutcome = "unknown") -> Iterator[None]:
    """Turn whatever goes wrong with PostgreSQL inside into an error of ours.

    `outcome` is what became of the work when the server does not say so: it may have done it.
    """
    try:
        yield
    except StafetteError:
        raise
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        raise Unstorable(f"the database cannot hold that value: {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise Locked(str(error)) from error
    except asyncpg.QueryCanceledError as error:
        raise RequestTimeout(f"the database cancelled the request: {error}", outcome="not done") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise Unavailable(
            f"the database refused to log us in: {error}; check user and password in the URL",
            outcome="not done",
            sentence=_UNREACHABLE,
        ) from error
    except asyncpg.InvalidCatalogNameError as error:
        raise Unavailable(
            f"the server has no such database: {error}; create it, or correct the URL",
            outcome="not done",
            sentence=_UNREACHABLE,
        ) from error
    except asyncpg.PostgresError as error:
        raise _from_postgres(error, url, outcome) from error
    except TimeoutError as error:
        raise RequestTimeout(
            f"the database at {masked(url)} did not answer in time",
            outcome=outcome,
            sentence="the database did not answer in time",
        ) from error
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise Unavailable(
            f"no server of {masked(url)} is as the URL wants it, which is to take writes unless it says"
            " otherwise; try again when one is promoted",
            outcome=outcome,
            sentence=_UNREACHABLE,
        ) from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The last: asyncpg's word for a connection on which the server has said good-bye but not yet hung up.
        raise Unavailable(
            f"cannot reach the database at {masked(url)}: {without_secrets(str(error), url)};"
            " check that it runs and that the URL is right",
            outcome=outcome,
            sentence=_UNREACHABLE,
        ) from error


_UNREACHABLE = "the database cannot be reached; try again, or ask the operator, who finds the reason in the log"
_BUSY = "the database cannot serve this request now; try again"
_BROKEN = "the database failed; ask the operator, who finds the reason in the log"


def ends_connection(error: asyncpg.PostgresError) -> bool:
    """Whether a connection is of no use after this: broken, ended by the server, or to a server that takes no writes.

    The last is a primary that has become a standby, and all connections to it are of no use.
    """
    return isinstance(
        error,
        asyncpg.PostgresConnectionError
        | asyncpg.AdminShutdownError
        | asyncpg.CrashShutdownError
        | asyncpg.CannotConnectNowError
        | asyncpg.ReadOnlySQLTransactionError,
    )


# SQLSTATE classes in which a repetition may succeed: connection, transaction rollback, out of resources, operator
# intervention (a server that starts or stops), and locks.
_PASSING = ("08", "40", "53", "57", "55")


async def server_version(connection: Connection) -> str:
    """PostgreSQL's version, as the server tells it."""
    return str(await connection.fetchval("SHOW server_version"))


async def server_time(connection: Connection) -> float:
    """The server's clock: seconds since the epoch."""
    return float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))


def _from_postgres(error: asyncpg.PostgresError, url: str, outcome: RequestOutcome) -> StafetteError:
    sqlstate = error.sqlstate or ""
    if sqlstate == _UNREADABLE_SQLSTATE:
        return Unreadable(str(error), outcome="not done")
    if ours := from_sqlstate(sqlstate, str(error)):
        return ours
    if error.severity_en == "ERROR":  # the transaction is rolled back; worse errors may come after a commit
        outcome = "not done"
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return Unavailable(
            f"the database at {masked(url)} takes no writes (any more): {error}; try again",
            outcome=outcome,
            sentence=_BUSY,
        )
    if sqlstate[:2] in _PASSING:
        return Unavailable(
            f"the database at {masked(url)} cannot serve us now: {error}; try again",
            outcome=outcome,
            sentence=_BUSY,
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
