"""`stafette up`, `down` and `status`: everything on this machine, in one data folder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from stafette import settings
from stafette.broker.control import ask_all
from stafette.cli import web
from stafette.cli.broker_link import running
from stafette.cli.db import Data
from stafette.cli.exits import CANNOT_CONNECT
from stafette.cli.output import Json, say, show_json, show_record
from stafette.database import schema
from stafette.database.connect import without_password
from stafette.database.embedded import EmbeddedPostgres
from stafette.errors import InvalidRequest, Unavailable

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the broker; 0 takes any free port.")]
WebPort = Annotated[
    int, typer.Option("--web-port", min=0, max=65535, help="Of the web console; 0 takes any free port.")
]


def up(
    data: Data = None,
    port: Port = 7470,
    web_port: WebPort = 7471,
    no_web: Annotated[bool, typer.Option("--no-web", help="Without the web console.")] = False,
    as_json: Json = False,
) -> None:
    """Start the embedded PostgreSQL, a broker and the web console in the background; harmless when they run.

    Example: stafette up --data ./mail --port 7470 --web-port 7471
    """
    chosen = settings.load(data=data)
    if chosen.database is not None:
        raise InvalidRequest(
            f"the database is {without_password(chosen.database)}, which Stafette does not run; use `stafette broker`"
            " and `stafette web` with it, or unset STAFETTE_DATABASE"
        )
    server = EmbeddedPostgres(chosen.data)
    server.start()
    asyncio.run(schema.migrate(server.url))
    url = running("broker", chosen.data) or _start("broker", chosen.data, "--port", port)
    if not as_json:
        print(url)
    say(f"broker    {url}")
    if not no_web:
        _web(chosen.data, server.url, web_port)
    if as_json:
        show_json(_found(chosen.data, server))
    say(f"database  {server.url}")
    say(f"data      {chosen.data.resolve()}")
    say(f"stop with `stafette down{'' if data is None else f' --data {data}'}`")


def _web(data: Path, database: str, port: int) -> None:
    """Start the console, and show the administrator's secret the one time that this is possible."""
    try:
        web.require_libraries()
    except InvalidRequest as error:
        say(f"web       not started: {error}")
        return
    from stafette.web.operators import first_secret  # slow to load, and only needed here

    secret = asyncio.run(web.with_console(database, first_secret))
    if secret is not None:  # whatever happens next, it cannot be shown again
        say(web.told_once(secret))
    say(f"web       {running('web', data) or _start('web', data, '--web-port', port)}")


def down(data: Data = None) -> None:
    """Stop what `stafette up` started: the broker drains first (harmless when nothing runs).

    Example: stafette down --data ./mail
    """
    folder = settings.load(data=data).data
    for kind, name in (("web", "the web console"), ("broker", "the broker")):
        try:
            ask_all(folder, "shutdown", kind)
        except Unavailable:
            say(f"{name} was not running")
        else:
            say(f"{name} has ended")
    EmbeddedPostgres(folder).stop()
    say("PostgreSQL is stopped")


def status(data: Data = None, as_json: Json = False) -> None:
    """Say what runs; exit code 3 when the broker or the database does not.

    Example: stafette status --json
    """
    folder = settings.load(data=data).data
    found = _found(folder, EmbeddedPostgres(folder))
    show_record(found, as_json=as_json)
    if found["broker"] is None or found["database"] is None:
        raise typer.Exit(CANNOT_CONNECT)


def _found(data: Path, server: EmbeddedPostgres) -> dict[str, str | None]:
    """What runs with a data folder."""
    return {
        "broker": running("broker", data),
        "web": running("web", data),
        "database": server.url if server.running else None,
        "data": str(data.resolve()),
    }


def _start(kind: str, data: Path, flag: str, port: int) -> str:
    """Start a process that outlives us; its URL is the first line it prints."""
    log = data / f"{kind}.log"
    command = [sys.executable, "-m", "stafette", kind, "--data", str(data), "--port", str(port)]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            text=True,
        )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    if not url:
        said = log.read_text().strip().rpartition("\n")[2].removeprefix("stafette: ").replace("--port", flag)
        raise Unavailable(f"the {kind} process did not start: {said}; see {log}")
    return url
