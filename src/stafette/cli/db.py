"""`stafette db`: the database under everything, embedded or given by URL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from stafette import settings
from stafette.cli.exits import ERROR
from stafette.cli.output import Json, say, show_record
from stafette.database import schema
from stafette.database.connect import without_password
from stafette.database.embedded import LOOPBACK, EmbeddedPostgres
from stafette.database.store import Store
from stafette.errors import InvalidRequest, StafetteError, Unavailable

app = typer.Typer(help="The database: start, stop, migrate, reset.", no_args_is_help=True, add_completion=False)

Data = Annotated[Path | None, typer.Option("--data", help="Data folder of the embedded PostgreSQL.")]
Database = Annotated[str | None, typer.Option("--database", help="URL of a PostgreSQL to use instead.")]


def database_url(data: Path | None, database: str | None) -> str:
    """The database to talk to: the one given, else the embedded one, which must be running."""
    chosen = settings.load(data=data, database=database)
    if chosen.database is not None:
        return chosen.database
    server = EmbeddedPostgres(chosen.data)
    if not server.running:
        raise Unavailable(
            f"the embedded database in {chosen.data} is not running; start it with `stafette db start`,"
            " or name another with --database"
        )
    return server.url


def _embedded(data: Path | None, *, tcp: bool = False, host: str = LOOPBACK) -> EmbeddedPostgres:
    chosen = settings.load(data=data)
    if chosen.database is not None:
        raise InvalidRequest(
            f"the database is {without_password(chosen.database)}, which Stafette does not run;"
            " unset STAFETTE_DATABASE (or `database` in stafette.toml) to use the embedded one"
        )
    return EmbeddedPostgres(chosen.data, tcp=tcp, host=host)


@app.command()
def start(
    data: Data = None,
    tcp: Annotated[bool, typer.Option("--tcp", help="Listen on a free TCP port, too; it wants a password.")] = False,
    host: Annotated[str, typer.Option("--host", help="The address for --tcp.")] = LOOPBACK,
) -> None:
    """Start the embedded PostgreSQL (harmless when it runs), bring its schema up to date, print its URL.

    Example: psql $(stafette db start)
    """
    server = _embedded(data, tcp=tcp, host=host)
    server.start()
    asyncio.run(schema.migrate(server.url))
    say(f"PostgreSQL runs (process {server.pid}, log {server.log}); stop it with `stafette db stop`")
    print(server.tcp_url or server.url)


@app.command()
def stop(data: Data = None) -> None:
    """Stop the embedded PostgreSQL (harmless when it does not run).

    Example: stafette db stop --data ./mail
    """
    server = _embedded(data)
    was_running = server.running
    server.stop()
    say("PostgreSQL stopped" if was_running else "PostgreSQL was not running")


@app.command()
def url(data: Data = None, database: Database = None) -> None:
    """Print the URL of the database.

    Example: psql $(stafette db url)
    """
    print(database_url(data, database))


@app.command()
def status(data: Data = None, database: Database = None, as_json: Json = False) -> None:
    """Say whether the database is there, durable and up to date; exit code 1 or 3 when it is not.

    Example: stafette db status --json
    """
    url = database_url(data, database)
    problem: StafetteError | None = None
    facts: dict[str, object] = {}
    try:
        facts = asyncio.run(_facts(url))
    except Unavailable:
        raise
    except StafetteError as error:
        problem = error
    show_record(
        {"database": without_password(url), "ready": problem is None, "problem": problem and str(problem), **facts},
        as_json=as_json,
    )
    if problem is not None:
        raise typer.Exit(ERROR)


async def _facts(url: str) -> dict[str, object]:
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
    """Bring the schema up to date (harmless when it is).

    Example: stafette db migrate --database postgresql://me@db.example/app
    """
    change = asyncio.run(schema.migrate(database_url(data, database)))
    if change.before != change.after:
        say(f"schema migrated from version {change.before} to {change.after}")
    else:
        say(f"schema version {change.after}" + (", functions replaced" if change.functions else ", nothing to do"))


@app.command()
def reset(
    data: Data = None,
    database: Database = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove all clients, queues and messages for good, and start with an empty schema.

    Example: stafette db reset --yes
    """
    url = database_url(data, database)
    if not yes:
        typer.confirm(f"Remove all clients, queues and messages from {without_password(url)}?", abort=True, err=True)
    asyncio.run(schema.reset(url))
    say("the database is empty")
