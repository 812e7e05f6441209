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
from stafette.cli.db import Data
from stafette.cli.exits import CANNOT_CONNECT
from stafette.cli.output import Json, say, show_record
from stafette.database import schema
from stafette.database.connect import shown
from stafette.database.embedded import EmbeddedPostgres
from stafette.errors import InvalidRequest, StafetteError, Unavailable

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the broker; 0 takes any free port.")]


def up(
    data: Data = None,
    port: Port = 7470,
    no_web: Annotated[bool, typer.Option("--no-web", help="Without the web console.")] = False,
) -> None:
    """Start the embedded PostgreSQL and a broker in the background; harmless when they run.

    Example: stafette up --data ./mail --port 7470
    """
    chosen = settings.load(data=data)
    if chosen.database is not None:
        raise InvalidRequest(
            f"the database is {shown(chosen.database)}, which Stafette does not run; use `stafette broker` with it,"
            " or unset STAFETTE_DATABASE"
        )
    server = EmbeddedPostgres(chosen.data)
    server.start()
    asyncio.run(schema.migrate(server.url))
    url = _broker_url(chosen.data) or _start_broker(chosen.data, port)
    print(url)
    say(f"broker    {url}")
    say(f"database  {server.url}")
    say(f"data      {chosen.data.resolve()}")
    say(f"stop with `stafette down{'' if data is None else f' --data {data}'}`")


def down(data: Data = None) -> None:
    """Stop what `stafette up` started: the broker drains first (harmless when nothing runs)."""
    folder = settings.load(data=data).data
    try:
        ask_all(folder, "shutdown")
    except Unavailable:
        say("no broker was running")
    else:
        say("the broker has ended")
    EmbeddedPostgres(folder).stop()
    say("PostgreSQL is stopped")


def status(data: Data = None, as_json: Json = False) -> None:
    """Say what runs; exit code 3 when the broker or the database does not."""
    folder = settings.load(data=data).data
    server = EmbeddedPostgres(folder)
    found = {
        "broker": _broker_url(folder),
        "web": None,
        "database": server.url if server.running else None,
        "data": str(folder.resolve()),
    }
    show_record(found, as_json=as_json)
    if found["broker"] is None or found["database"] is None:
        raise typer.Exit(CANNOT_CONNECT)


def _broker_url(data: Path) -> str | None:
    """Where the broker with this data folder serves, if it runs."""
    try:
        answers = ask_all(data, "status")
    except StafetteError:
        return None
    urls = [str(answer["url"]) for answer in answers if isinstance(answer, dict)]
    return urls[0] if urls else None


def _start_broker(data: Path, port: int) -> str:
    """Start a broker that outlives us; its URL is the first line it prints."""
    log = data / "broker.log"
    command = [sys.executable, "-m", "stafette", "broker", "--data", str(data), "--port", str(port)]
    with log.open("ab") as errors:
        broker = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            text=True,
        )
    assert broker.stdout is not None
    url = broker.stdout.readline().strip()
    if not url:
        said = log.read_text().strip().rpartition("\n")[2].removeprefix("stafette: ")
        raise Unavailable(f"the broker did not start: {said}; see {log}")
    return url
