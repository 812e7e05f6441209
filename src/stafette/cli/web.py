"""`stafette web`: runs the web console in the foreground, and makes secrets for its operators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from stafette import settings
from stafette.cli import privileges
from stafette.cli.db import Data, Database, database_url
from stafette.cli.lazy import without_gc
from stafette.cli.output import Json, say, show_json
from stafette.errors import InvalidRequest

if TYPE_CHECKING:
    from stafette.database.console import Console

Result = TypeVar("Result")
NoLab = Annotated[bool, typer.Option("--no-lab", help="Switch off the laboratory in the web console.")]

AllowedHosts = Annotated[
    str | None,
    typer.Option(
        "--allowed-hosts", metavar="HOST …", help="Further names of the console; others in a request are refused."
    ),
]
TrustedProxies = Annotated[
    str | None,
    typer.Option(
        "--trusted-proxies", metavar="IP …", help="Proxies, or their networks, whose X-Forwarded headers are believed."
    ),
]

app = typer.Typer(invoke_without_command=True, add_completion=False)


def require_libraries() -> None:
    """Raise InvalidRequest if libraries of the web console are not installed."""
    if not all(find_spec(name) for name in ("fastapi", "uvicorn", "jinja2", "tomlkit", "plotly")):
        raise InvalidRequest(
            "libraries of the web console are missing; install them with `pip install 'stafette[web]'`, or use --no-web"
        )


@app.callback()
def web(
    context: typer.Context,
    data: Data = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes any free port.")
    ] = 7471,
    broker: Annotated[
        str | None, typer.Option("--broker", help="URL of the broker to send through; default: any running broker.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate", help="Certificate file, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Key file of the certificate, PEM.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without TLS.")] = False,
    allowed_hosts: AllowedHosts = None,
    trusted_proxies: TrustedProxies = None,
    unsafe_durability: Annotated[
        bool, typer.Option("--unsafe-durability", help="Accept a database that can lose confirmed messages.")
    ] = False,
    no_lab: NoLab = False,
    lab_hosts: Annotated[
        str | None, typer.Option("--lab-hosts", metavar="HOST …", help="Other machines that its experiments may use.")
    ] = None,
    lab_databases: Annotated[
        str | None,
        typer.Option("--lab-databases", metavar="URL …", help="Other databases that its experiments may use."),
    ] = None,
) -> None:
    """Run the web console in the foreground and print its URL; Ctrl-C ends it.

    Example: stafette web --database postgresql://db.example/stafette --port 8080
    """
    if context.invoked_subcommand is not None:
        return
    require_libraries()
    with without_gc():
        from stafette.lab.experiment.reach import Reach
        from stafette.web import operators  # slow to load, and only needed here
        from stafette.web.hosts import Hosts, parse_networks
        from stafette.web.log_limit import limit_lines
        from stafette.web.server import Address, serve
        from stafette.web.site import WebSettings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("asyncpg").setLevel(logging.ERROR)  # its warnings are tracebacks of errors that we log anyway
    limit_lines()
    current = settings.load(
        data=data, database=database, allowed_hosts=allowed_hosts, trusted_proxies=trusted_proxies,
        lab_hosts=lab_hosts, lab_databases=lab_databases,
    )  # fmt: skip
    address = Address(host, port, tls_certificate, tls_key, insecure)
    address.check()
    url = database_url(data, database)
    secret = asyncio.run(with_console(url, operators.first_secret))
    if secret is not None:
        say(secret_line(secret))
    site = WebSettings(
        database=url, data=current.data, runs=current.runs_folder, experiments=current.experiments_folder,
        broker=broker, hosts=Hosts.of(host, current.allowed_hosts),
        trusted_proxies=parse_networks(current.trusted_proxies), unsafe_durability=unsafe_durability,
        lab=not no_lab, reach=Reach(current.lab_hosts, current.lab_databases),
    )  # fmt: skip

    def drop() -> None:
        identity = privileges.drop(current.data, current.runs_folder, current.experiments_folder)
        if identity.message:
            logging.getLogger(__name__).info(identity.message)

    asyncio.run(serve(address, site, lambda url: print(url, flush=True), before_listening=drop))


@app.command()
def secret(
    role: Annotated[
        Literal["admin", "viewer"], typer.Option("--role", help="admin may change things, viewer only look.")
    ] = "admin",
    data: Data = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Create a new secret for a role of the web console and print it; the old one stops working.

    Example: stafette web secret --role viewer
    """
    require_libraries()
    from stafette.web import operators

    url = database_url(data, database)
    new_secret = asyncio.run(with_console(url, lambda console: operators.new_secret(console, role)))
    if as_json:
        show_json({"role": role, "secret": new_secret})
    else:
        print(new_secret)


def secret_line(secret: str) -> str:
    """The line that shows the administrator the first secret."""
    return f"secret    {secret}  (the administrator's, for the web console; it is not shown again)"


async def with_console(url: str, work: Callable[[Console], Awaitable[Result]]) -> Result:
    """Call `work` with the Console of a database."""
    from stafette.database.console import Console
    from stafette.database.store import Store

    async with await Store.open(url, connections=1, unsafe_durability=True) as store:
        return await work(Console(store.pool))
