"""`stafette web`: the management console in the foreground, and the secrets of its operators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from stafette import settings
from stafette.cli.db import Data, Database, database_url
from stafette.cli.lazy import loading
from stafette.cli.output import Json, say, show_json
from stafette.errors import InvalidRequest

if TYPE_CHECKING:
    from stafette.database.console import Console

Result = TypeVar("Result")

app = typer.Typer(invoke_without_command=True, add_completion=False)


def require_libraries() -> None:
    """Say what to install when the web's libraries are missing."""
    if not all(find_spec(name) for name in ("fastapi", "uvicorn", "jinja2", "tomlkit", "plotly")):
        raise InvalidRequest(
            "the web console needs libraries that are not installed; `pip install 'stafette[web]'`, or use --no-web"
        )


@app.callback()
def web(
    context: typer.Context,
    data: Data = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any free port.")] = 7471,
    broker: Annotated[
        str | None, typer.Option("--broker", help="URL of the broker to send through; by default any that is alive.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without TLS.")] = False,
    unsafe_durability: Annotated[
        bool, typer.Option("--unsafe-durability", help="Accept a database that may lose what it confirmed.")
    ] = False,
) -> None:
    """Run the web console in the foreground and print its address; Ctrl-C ends it.

    Example: stafette web --database postgresql://db.example/stafette --port 8080
    """
    if context.invoked_subcommand is not None:
        return
    require_libraries()
    with loading():
        from stafette.web import operators  # these are slow to load, and only needed here
        from stafette.web.server import Address, serve
        from stafette.web.site import WebSettings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("asyncpg").setLevel(logging.ERROR)  # its warnings are tracebacks of what we say in a sentence
    chosen, url = settings.load(data=data, database=database), database_url(data, database)
    secret = asyncio.run(with_console(url, operators.first_secret))
    if secret is not None:
        say(told_once(secret))
    address = Address(host, port, tls_certificate, tls_key, insecure)
    site = WebSettings(
        database=url, data=chosen.data, runs=chosen.runs_folder, experiments=chosen.experiments_folder, broker=broker,
        secure=tls_certificate is not None, unsafe_durability=unsafe_durability,
    )  # fmt: skip
    asyncio.run(serve(address, site, lambda url: print(url, flush=True)))


@app.command()
def secret(
    role: Annotated[
        Literal["admin", "viewer"], typer.Option("--role", help="admin changes things, viewer looks.")
    ] = "admin",
    data: Data = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Make a new secret for an operator of the console and print it; the old one stops working.

    Example: stafette web secret --role viewer
    """
    require_libraries()
    from stafette.web import operators

    made = asyncio.run(with_console(database_url(data, database), lambda console: operators.new_secret(console, role)))
    if as_json:
        show_json({"role": role, "secret": made})
    else:
        print(made)


def told_once(secret: str) -> str:
    """How an administrator learns the first secret."""
    return f"secret    {secret}  (the administrator's, for the web console; it is shown only now)"


async def with_console(url: str, work: Callable[[Console], Awaitable[Result]]) -> Result:
    """Do something with the console's part of a database."""
    from stafette.database.console import Console
    from stafette.database.store import Store

    async with await Store.open(url, connections=1, unsafe_durability=True) as store:
        return await work(Console(store.pool))
