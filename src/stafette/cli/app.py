"""The root of the command and what all commands share."""

from __future__ import annotations

from typing import Annotated

import typer

import stafette
from stafette.cli import broker, db, db_bench, lab, up  # noqa: F401  (db_bench adds itself to db)
from stafette.cli.analyze import analyze
from stafette.cli.bench import bench
from stafette.cli.factorial import factorial

app = typer.Typer(
    name="stafette",
    help="Durable message passing on PostgreSQL, with the laboratory that measures it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up.up)
app.command()(up.down)
app.command()(up.status)
app.add_typer(db.app, name="db")
app.add_typer(broker.app, name="broker")
app.command()(bench)
app.add_typer(lab.app, name="lab")
app.command()(analyze)
app.command()(factorial)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stafette {stafette.__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Durable message passing on PostgreSQL, with the laboratory that measures it."""
