"""`stafette doctor`: checks everything that Stafette needs on this machine, and says how to fix what is wrong.

A check is a function that returns findings; a check that raises an error becomes a finding, too. *fail*: Stafette does
not work. *warn*: a part of it does not work, or soon will not.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from stafette import settings
from stafette.cli.broker_link import running_url
from stafette.cli.exits import ERROR
from stafette.cli.output import Json, show_json, show_table
from stafette.cli.privileges import open_entries
from stafette.cli.progress import Progress
from stafette.database import connect as database
from stafette.database import schema
from stafette.database.durability import require_suitable
from stafette.database.embedded import LOOPBACK, EmbeddedPostgres
from stafette.database.lock_holders import lock_holders
from stafette.database.masking import masked
from stafette.errors import StafetteError

OLDEST_PYTHON = (3, 11)
PORTS = {"broker": (7470, "--port"), "web": (7471, "--web-port")}
GIBIBYTE = 1024**3
LITTLE_SPACE, NO_SPACE = 2 * GIBIBYTE, GIBIBYTE // 4
"""Free bytes below which to warn, and below which PostgreSQL soon stops."""

CLOCK_SECONDS = 1.0
"""Difference between the database's clock and ours above which times in traces and messages are misleading."""

LIBRARIES = {
    "lab": ("asyncssh", "jinja2", "numpy", "pandas", "plotly", "psutil", "pyarrow", "pyspark", "scipy"),
    "web": ("fastapi", "jinja2", "plotly", "python_multipart", "tomlkit", "uvicorn"),
}
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}

Data = Annotated[Path | None, typer.Option("--data", help="The data folder to check.")]
Database = Annotated[str | None, typer.Option("--database", help="URL of the PostgreSQL server to check.")]


@dataclass(frozen=True)
class Finding:
    """The result of a check; its fields are the keys of --json."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    remedy: str | None = None
    processes: list[int] = field(default_factory=list)
    """Of PostgreSQL: those that hold our locks. Only --json has them apart; `found` names them, too."""


def doctor(data: Data = None, database: Database = None, as_json: Json = False) -> None:
    """Check what Stafette needs on this machine, and say how to fix what is wrong.

    Exit code 1 if a check failed.

    Example: stafette doctor --data ./mail
    """
    current = settings.load(data=data, database=database)
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("Python", _python),
        ("PostgreSQL", lambda: _postgresql(current)),
        ("Java", _java),
        ("ports", lambda: _ports(current.data)),
        ("disk space", lambda: _disk_space(current.data)),
        ("data folder", lambda: _data_folder(current.data)),
        ("libraries", _libraries),
    ]
    findings: list[Finding] = []
    with Progress("checking") as progress:
        for name, check in checks:
            progress.text = f"checking {name}"
            findings += _outcome(name, check)
    _show(findings, as_json=as_json)
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(ERROR)


def _outcome(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except (StafetteError, OSError) as error:
        problem, _, remedy = str(error).rpartition("; ")
        return [Finding(name, "fail", problem or remedy, remedy if problem else None)]


def _show(findings: Sequence[Finding], *, as_json: bool) -> None:
    rows = [asdict(finding) for finding in findings]
    if as_json:
        show_json(rows)
    elif sys.stdout.isatty():  # a person reads the remedies: lines are wrapped, not cut off
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for finding in findings:
            line = Text(f"{finding.state:<5}", style=STYLES[finding.state])
            line.append(f"{finding.name}: {finding.found}", style="default not bold")
            console.print(line, soft_wrap=True)
            if finding.remedy:
                console.print(Text(f"      {finding.remedy}", style="bold"), soft_wrap=True)
    else:
        show_table([{key: row[key] for key in row if key != "processes"} for row in rows], as_json=False)


def _python() -> list[Finding]:
    supported = sys.version_info >= OLDEST_PYTHON
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return [
        Finding(
            "Python",
            "ok" if supported else "fail",
            platform.python_version(),
            None if supported else f"install Python {oldest} or newer",
        )
    ]


# The database


def _postgresql(current: settings.Settings) -> list[Finding]:
    if current.database is not None:
        external = Finding("PostgreSQL", "ok", f"{masked(current.database)}, not managed by Stafette")
        return [external, *_check_database(current.database)]
    server = EmbeddedPostgres(current.data)
    findings = [Finding("PostgreSQL's programs", "ok", str(server.bin("postgres").parent))]
    if not server.running:
        return [*findings, Finding("PostgreSQL", "warn", "not running", "start everything with `stafette up`")]
    findings.append(Finding("PostgreSQL", "ok", f"running, process {server.pid}"))
    return findings + _check_database(server.url)


def _check_database(url: str) -> list[Finding]:
    return asyncio.run(_database(url))


async def _database(url: str) -> list[Finding]:
    async with database.connected(url) as connection:
        findings = [
            Finding("PostgreSQL's version", "ok", await database.server_version(connection)),
            await _locks(connection),
        ]
        await connection.execute("SET lock_timeout = '1s'")  # the rest reads tables of ours
        try:
            with database.translated_errors(url):
                findings += [await _schema(connection), await _durability(connection), await _clock(connection)]
        except database.Locked as error:
            findings.append(Finding("schema", "fail", str(error), "do what is said of the locks"))
        return findings


async def _locks(connection: database.Connection) -> Finding:
    holders = await lock_holders(connection)
    if not holders:
        return Finding("locks", "ok", "nobody holds one for long")
    return Finding(
        "locks",
        "warn",
        "; ".join(map(str, holders)),
        "; ".join(holder.remedy for holder in holders),
        [holder.pid for holder in holders if holder.pid is not None],
    )


async def _schema(connection: database.Connection) -> Finding:
    try:
        await schema.require_current(connection)
    except StafetteError as error:
        problem, _, remedy = str(error).rpartition("; ")
        return Finding("schema", "fail", problem, remedy)
    return Finding("schema", "ok", f"version {schema.newest_version()}")


async def _durability(connection: database.Connection) -> Finding:
    try:
        await require_suitable(connection)
    except StafetteError as error:
        problem, _, remedy = str(error).rpartition("; ")
        return Finding("durability", "fail", problem, remedy)
    return Finding("durability", "ok", "a confirmed send is on disk")


async def _clock(connection: database.Connection) -> Finding:
    """Compare the clocks. The database read its clock at some time between `before` and `after`."""
    before = time.time()
    database_time = await database.server_time(connection)
    after = time.time()
    difference = max(before - database_time, database_time - after, 0.0)
    if difference <= CLOCK_SECONDS:
        return Finding("clock", "ok", f"within {max(difference, after - before, 0.001):.3f} s of the database's")
    return Finding("clock", "warn", f"{difference:.1f} s off the database's", "synchronise both machines with NTP")


# The machine


def _java() -> list[Finding]:
    from stafette.pipeline import java

    versions = " or ".join(map(str, java.VERSIONS))
    try:
        version = java.version(java.home() / "bin" / "java")
    except StafetteError as error:
        problem, _, remedy = str(error).rpartition("; ")
        return [Finding("Java for the analysis", "warn", problem, remedy)]
    if version not in java.VERSIONS:
        return [Finding("Java for the analysis", "warn", f"version {version}", f"set JAVA_HOME to Java {versions}")]
    return [Finding("Java for the analysis", "ok", f"version {version}")]


def _ports(data: Path) -> list[Finding]:
    return [_port(kind, port, flag, running_url(kind, data)) for kind, (port, flag) in PORTS.items()]


def _port(kind: str, port: int, flag: str, url: str | None) -> Finding:
    name = f"port {port} of the {kind}"
    if url is not None:
        elsewhere = "" if url.rstrip("/").endswith(f":{port}") else ", on another port"
        return Finding(name, "ok", f"in use by this {kind} at {url}{elsewhere}")
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: a closed connection that lingers does not matter
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return Finding(name, "warn", f"in use: {error.strerror}", f"choose another with `stafette up {flag} PORT`")
    return Finding(name, "ok", "free")


def _disk_space(data: Path) -> list[Finding]:
    free = shutil.disk_usage(_nearest_existing(data)).free
    state: Literal["ok", "warn", "fail"] = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    remedy = None if state == "ok" else "free some space, or choose another folder with --data"
    return [Finding("disk space", state, f"{free / GIBIBYTE:,.1f} GiB free for {data}", remedy)]


def _data_folder(data: Path) -> list[Finding]:
    folder = _nearest_existing(data)
    if not folder.is_dir():
        return [Finding("data folder", "fail", f"{folder} is not a folder", "choose another with --data")]
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "choose another with --data, or change its owner"
        return [Finding("data folder", "fail", f"no permission to write in {folder}", remedy)]
    if folder != data.resolve():
        return [Finding("data folder", "ok", f"{data} will be created when it is needed")]
    if folder.stat().st_mode & stat.S_IWOTH:
        return [Finding("data folder", "fail", f"every user may write in {data}", f"chmod o-w {data}")]
    if names := [path.name for path in open_entries(data)]:
        remedy = f"start Stafette again, which closes them, or `chmod -R go= {data}/*`"
        return [Finding("data folder", "warn", f"other users can enter or read {', '.join(names)} in {data}", remedy)]
    return [Finding("data folder", "ok", str(data))]


def _nearest_existing(data: Path) -> Path:
    """The data folder, or the nearest one above it that exists."""
    path = data.resolve()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _libraries() -> list[Finding]:
    findings = []
    for part, names in LIBRARIES.items():
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        detail = f"not installed: {', '.join(missing)}" if missing else "installed"
        remedy = f"pip install 'stafette[{part}]'" if missing else None
        findings.append(Finding(f"libraries of the {part}", "warn" if missing else "ok", detail, remedy))
    return findings
