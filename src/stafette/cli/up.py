"""`stafette up`, `down` and `status`: database, broker and web console on this machine, in one data folder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stafette import settings
from stafette.broker.control import ask_all
from stafette.cli import privileges, web
from stafette.cli.broker_link import running_url
from stafette.cli.db import Data
from stafette.cli.exits import CANNOT_CONNECT
from stafette.cli.output import Json, say, show_json, show_record
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.embedded.server_user import ServerUser
from stafette.database.masking import masked
from stafette.errors import InvalidRequest, Unavailable

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the broker; 0 takes any free port.")]
WebPort = Annotated[
    int, typer.Option("--web-port", min=0, max=65535, help="Port of the web console; 0 takes any free port.")
]


def up(
    data: Data = None,
    port: Port = 7470,
    web_port: WebPort = 7471,
    no_web: Annotated[bool, typer.Option("--no-web", help="Do not start the web console.")] = False,
    allowed_hosts: web.AllowedHosts = None,
    trusted_proxies: web.TrustedProxies = None,
    no_lab: web.NoLab = False,
    as_json: Json = False,
) -> None:
    """Start the embedded PostgreSQL, a broker and the web console in the background; harmless if they already run.

    Example: stafette up --data ./mail --port 7470 --web-port 7471
    """
    current = settings.load(data=data)
    if current.database is not None:
        raise InvalidRequest(
            f"the database is {masked(current.database)}, which Stafette does not manage;"
            " use `stafette broker` and `stafette web` with it, or unset STAFETTE_DATABASE"
        )
    identity = privileges.prepare(current.data)
    server = EmbeddedPostgres(current.data)
    server.start()
    asyncio.run(schema.migrate(server.url))
    url = running_url("broker", current.data) or _start("broker", current.data, "--port", port)
    if not as_json:
        print(url)
    say(f"broker    {url}")
    if not no_web:
        options = ["--no-lab"] if no_lab else []
        for flag, value in (("--allowed-hosts", allowed_hosts), ("--trusted-proxies", trusted_proxies)):
            options += [] if value is None else [flag, value]
        _start_web(current.data, server.url, web_port, options)
    if as_json:
        show_json(_running_services(current.data, server))
    say(f"database  {server.url}")
    say(f"data      {current.data.resolve()}{f'  ({identity.message})' if identity.message else ''}")
    say(f"stop with `stafette down{'' if data is None else f' --data {data}'}`")


def _start_web(data: Path, database: str, port: int, options: Sequence[str]) -> None:
    """Start the web console; if the administrator's secret is new, print it, which is possible only now."""
    try:
        web.require_libraries()
    except InvalidRequest as error:
        say(f"web       not started: {error}")
        return
    from stafette.web.operators import first_secret  # slow to load, and only needed here

    secret = asyncio.run(web.with_console(database, first_secret))
    if secret is not None:  # print it before the start, which may fail: it cannot be shown again
        say(web.secret_line(secret))
    say(f"web       {running_url('web', data) or _start('web', data, '--web-port', port, *options)}")


def down(data: Data = None) -> None:
    """Stop what `stafette up` started, after the broker has drained; harmless if nothing runs.

    Example: stafette down --data ./mail
    """
    folder = settings.load(data=data).data
    for kind, name in (("web", "the web console"), ("broker", "the broker")):
        try:
            ask_all(folder, "shutdown", kind)
        except Unavailable:
            say(f"{name} was not running")
        else:
            say(f"{name} is stopped")
    EmbeddedPostgres(folder).stop()
    say("PostgreSQL is stopped")


def status(data: Data = None, as_json: Json = False) -> None:
    """Show what runs; exit code 3 if the broker or the database does not.

    Example: stafette status --json
    """
    folder = settings.load(data=data).data
    services = _running_services(folder, EmbeddedPostgres(folder))
    show_record(services, as_json=as_json)
    if services["broker"] is None or services["database"] is None:
        raise typer.Exit(CANNOT_CONNECT)


def _running_services(data: Path, server: EmbeddedPostgres) -> dict[str, str | None]:
    """URLs of what runs in a data folder; None for what does not."""
    return {
        "broker": running_url("broker", data),
        "web": running_url("web", data),
        "database": server.url if server.running else None,
        "data": str(data.resolve()),
    }


def _start(kind: str, data: Path, flag: str, port: int, *options: str) -> str:
    """Start a process in the background, and return its URL, the first line that it prints."""
    log = data / f"{kind}.log"
    command = [sys.executable, "-m", "stafette", kind, "--data", str(data), "--port", str(port), *options]
    with ServerUser.of(data / "postgres").open(log) as errors:
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
        last_line = log.read_text().strip().rpartition("\n")[2].removeprefix("stafette: ").replace("--port", flag)
        raise Unavailable(f"the {kind} process did not start: {last_line}; see {log}")
    return url
