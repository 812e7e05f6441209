"""`stafette client`: lists, shows and deletes clients."""

from __future__ import annotations

import msgspec
import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import ClientName
from stafette.cli.output import Json, report, show_json, show_record, show_table
from stafette.cli.questions import Yes, confirm

app = typer.Typer(help="Clients: list, inspect, delete.", no_args_is_help=True, add_completion=False)


@app.command("ls")
def list_(url: Url = None, name: Name = None, secret: Secret = None, data: Data = None, as_json: Json = False) -> None:
    """List all registered clients by name, with the broker through which each is online.

    Example: stafette client ls --json
    """
    with connect(url, name, secret, data) as connection:
        clients = connection.clients()
    if as_json:
        show_json([msgspec.structs.asdict(client) for client in clients])
        return
    rows = [
        {
            "name": client.name,
            "mode": client.mode,
            "broker": client.broker,
            "registered": f"{client.registered_at.astimezone():%Y-%m-%d %H:%M:%S}",
            "last seen": f"{client.last_seen_at.astimezone():%Y-%m-%d %H:%M:%S}",
        }
        for client in clients
    ]
    show_table(rows, as_json=False)


@app.command()
def info(
    client: ClientName,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print the details of a client.

    Example: stafette client info alice
    """
    with connect(url, name, secret, data) as connection:
        details = connection.client(client)
    show_record(msgspec.structs.asdict(details), as_json=as_json)


@app.command("rm")
def remove(
    client: ClientName,
    yes: Yes = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
) -> None:
    """Delete a client that is offline, with its personal queue.

    Example: stafette client rm alice --yes
    """
    with connect(url, name, secret, data) as connection:
        details = connection.client(client)
        confirm(f"Delete client {details.name} with its personal queue?", yes=yes)
        connection.delete_client(details.name)
    report(f"client {details.name} is deleted")
