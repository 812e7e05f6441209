"""`stafette db`: the database, embedded or given by URL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from stafette import settings
from stafette.cli.exits import ERROR
from stafette.cli.output import Json, say, show_record
from stafette.database import schema
from stafette.database.embedded import LOOPBACK, EmbeddedPostgres
from stafette.database.masking import masked
from stafette.database.store import Store
from stafette.errors import InvalidRequest, StafetteError, Unavailable

app = typer.Typer(help="The database: start, stop, migrate, reset.", no_args_is_help=True, add_completion=False)

Data = Annotated[Path | None, typer.Option("--data", help="Data folder of the embedded PostgreSQL.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", help="URL of a PostgreSQL to use instead; with a password, better in STAFETTE_DATABASE."
    ),
]


def database_url(data: Path | None, database: str | None) -> str:
    """URL of the database: the one given, else of the embedded one, which must be running."""
    current = settings.load(data=data, database=database)
    if current.database is not None:
        return current.database
    server = EmbeddedPostgres(current.data)
    if not server.running:
        raise Unavailable(
            f"the embedded database in {current.data} is not running; start it with `stafette db start`,"
            " or choose another with --database"
        )
    return server.url


def _embedded_server(data: Path | None, *, tcp: bool = False, host: str = LOOPBACK) -> EmbeddedPostgres:
    current = settings.load(data=data)
    if current.database is not None:
        raise InvalidRequest(
            f"the database is {masked(current.database)}, which Stafette does not manage;"
            " unset STAFETTE_DATABASE (or `database` in stafette.toml) to use the embedded one"
        )
    return EmbeddedPostgres(current.data, tcp=tcp, host=host)


@app.command()
def start(
    data: Data = None,
    tcp: Annotated[bool, typer.Option("--tcp", help="Listen on a free TCP port, too, with a password.")] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen on with --tcp.")] = LOOPBACK,
) -> None:
    """Start the embedded PostgreSQL (harmless if it runs), bring its schema up to date, and print its URL.

    Example: psql $(stafette db start)
    """
    server = _embedded_server(data, tcp=tcp, host=host)
    server.start()
    asyncio.run(schema.migrate(server.url))
    say(f"PostgreSQL is running (process {server.pid}, log {server.log}); stop it with `stafette db stop`")
    print(server.tcp_url or server.url)


@app.command()
def stop(data: Data = None) -> None:
    """Stop the embedded PostgreSQL (harmless if it does not run).

    Example: stafette db stop --data ./mail
    """
    server = _embedded_server(data)
    was_running = server.running
    server.stop()
    say("PostgreSQL is stopped" if was_running else "PostgreSQL was not running")


@app.command()
def url(data: Data = None, database: Database = None) -> None:
    """Print the URL of the database.

    Example: psql $(stafette db url)
    """
    print(database_url(data, database))


@app.command()
def status(data: Data = None, database: Database = None, as_json: Json = False) -> None:
    """Show whether the database is reachable, durable and up to date; exit code 1 or 3 if it is not.

    Example: stafette db status --json
    """
    url = database_url(data, database)
    problem: StafetteError | None = None
    counts: dict[str, object] = {}
    try:
        counts = asyncio.run(_counts(url))
    except Unavailable:
        raise
    except StafetteError as error:
        problem = error
    show_record(
        {"database": masked(url), "ready": problem is None, "problem": problem and str(problem), **counts},
        as_json=as_json,
    )
    if problem is not None:
        raise typer.Exit(ERROR)


async def _counts(url: str) -> dict[str, object]:
    async with await Store.open(url, connections=1) as store:
        overview = await store.monitoring.overview()
    return {
        "schema": schema.newest_version(),
        "clients": overview.clients,
        "queues": overview.queues,
        "messages": overview.ready,
    }


@app.command()
def migrate(data: Data = None, database: Database = None) -> None:
    """Bring the schema up to date (harmless if it is).

    Example: stafette db migrate --database postgresql://me@db.example/app
    """
    change = asyncio.run(schema.migrate(database_url(data, database)))
    if change.before != change.after:
        say(f"the schema was migrated from version {change.before} to {change.after}")
    else:
        say(
            f"the schema is at version {change.after}"
            + (", functions replaced" if change.functions else ", nothing to do")
        )


@app.command()
def reset(
    data: Data = None,
    database: Database = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Permanently delete all clients, queues and messages, and create an empty schema.

    Example: stafette db reset --yes
    """
    url = database_url(data, database)
    if not yes:
        typer.confirm(f"Delete all clients, queues and messages from {masked(url)}?", abort=True, err=True)
    asyncio.run(schema.reset(url))
    say("the database is empty")
