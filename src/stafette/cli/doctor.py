"""`stafette doctor`: each thing that Stafette needs here, as it is, and what to do where it is not as it should be.

A check is a function that returns findings; one that breaks is a finding, too. *fail* is what keeps Stafette from
working, *warn* what keeps some part of it from it, or will.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from stafette import settings
from stafette.cli.broker_link import running
from stafette.cli.exits import ERROR
from stafette.cli.output import Json, show_json, show_table
from stafette.cli.progress import Progress
from stafette.database import connect as database
from stafette.database import schema
from stafette.database.embedded import LOOPBACK, EmbeddedPostgres
from stafette.errors import StafetteError

OLDEST_PYTHON = (3, 11)
PORTS = {"broker": (7470, "--port"), "web": (7471, "--web-port")}
GIBIBYTE = 1024**3
LITTLE_SPACE, NO_SPACE = 2 * GIBIBYTE, GIBIBYTE // 4
"""Free bytes below which to warn, and below which PostgreSQL soon stops."""

CLOCK_SECONDS = 1.0
"""How far the database's clock may be from ours before times in traces and messages confuse people."""

LIBRARIES = {
    "lab": ("asyncssh", "jinja2", "numpy", "pandas", "plotly", "psutil", "pyarrow", "pyspark", "scipy"),
    "web": ("fastapi", "jinja2", "plotly", "python_multipart", "tomlkit", "uvicorn"),
}
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}

Data = Annotated[Path | None, typer.Option("--data", help="The data folder to look at.")]
Database = Annotated[str | None, typer.Option("--database", help="URL of the PostgreSQL to look at.")]


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    remedy: str | None = None


def doctor(data: Data = None, database: Database = None, as_json: Json = False) -> None:
    """Look at what Stafette needs here, and say what to do about the rest.

    Exit code 1 when anything failed.

    Example: stafette doctor --data ./mail
    """
    chosen = settings.load(data=data, database=database)
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("Python", _python),
        ("PostgreSQL", lambda: _postgresql(chosen)),
        ("Java", _java),
        ("ports", lambda: _ports(chosen.data)),
        ("disk space", lambda: _disk_space(chosen.data)),
        ("data folder", lambda: _data_folder(chosen.data)),
        ("libraries", _libraries),
    ]
    findings: list[Finding] = []
    with Progress("looking") as progress:
        for name, check in checks:
            progress.sentence = f"looking at {name}"
            findings += _outcome(name, check)
    _show(findings, as_json=as_json)
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(ERROR)


def _outcome(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except (StafetteError, OSError) as error:
        found, _, remedy = str(error).rpartition("; ")
        return [Finding(name, "fail", found or remedy, remedy if found else None)]


def _show(findings: Sequence[Finding], *, as_json: bool) -> None:
    rows = [asdict(finding) for finding in findings]
    if as_json:
        show_json(rows)
    elif sys.stdout.isatty():  # remedies are for people: they are wrapped, not cut off
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
        show_table(rows, as_json=False)


def _python() -> list[Finding]:
    good = sys.version_info >= OLDEST_PYTHON
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return [
        Finding(
            "Python",
            "ok" if good else "fail",
            platform.python_version(),
            None if good else f"install {oldest} or newer",
        )
    ]


# The database


def _postgresql(chosen: settings.Settings) -> list[Finding]:
    if chosen.database is not None:
        given = Finding("PostgreSQL", "ok", f"{database.without_password(chosen.database)}, not ours to start")
        return [given, *_connected(chosen.database)]
    server = EmbeddedPostgres(chosen.data)
    findings = [Finding("PostgreSQL's programs", "ok", str(server.bin("postgres").parent))]
    if not server.running:
        return [*findings, Finding("PostgreSQL", "warn", "does not run", "start everything with `stafette up`")]
    findings.append(Finding("PostgreSQL", "ok", f"runs, process {server.pid}"))
    return findings + _connected(server.url)


def _connected(url: str) -> list[Finding]:
    return asyncio.run(_ask(url))


async def _ask(url: str) -> list[Finding]:
    async with database.connected(url) as connection:
        return [
            Finding("PostgreSQL's version", "ok", await database.server_version(connection)),
            await _schema(connection),
            await _durability(connection),
            await _clock(connection),
        ]


async def _schema(connection: database.Connection) -> Finding:
    try:
        await schema.require_current(connection)
    except StafetteError as error:
        found, _, remedy = str(error).rpartition("; ")
        return Finding("schema", "fail", found, remedy)
    return Finding("schema", "ok", f"version {schema.newest_version()}")


async def _durability(connection: database.Connection) -> Finding:
    try:
        await schema.require_durability(connection)
    except StafetteError as error:
        found, _, remedy = str(error).rpartition("; ")
        return Finding("durability", "fail", found, remedy)
    return Finding("durability", "ok", "an answered send is on disk")


async def _clock(connection: database.Connection) -> Finding:
    """Compare the clocks; the database looked at its own at some time while we waited."""
    before = time.time()
    theirs = await database.server_time(connection)
    after = time.time()
    apart = max(before - theirs, theirs - after, 0.0)
    if apart <= CLOCK_SECONDS:
        return Finding("clock", "ok", f"within {max(apart, after - before, 0.001):.3f} s of the database's")
    return Finding("clock", "warn", f"{apart:.1f} s from the database's", "let both machines set their clocks by NTP")


# The machine


def _java() -> list[Finding]:
    from stafette.pipeline import java

    wanted = " or ".join(map(str, java.VERSIONS))
    try:
        found = java.version(java.home() / "bin" / "java")
    except StafetteError as error:
        problem, _, remedy = str(error).rpartition("; ")
        return [Finding("Java for the analysis", "warn", problem, remedy)]
    if found not in java.VERSIONS:
        return [Finding("Java for the analysis", "warn", f"version {found}", f"set JAVA_HOME to Java {wanted}")]
    return [Finding("Java for the analysis", "ok", f"version {found}")]


def _ports(data: Path) -> list[Finding]:
    return [_port(kind, port, flag, running(kind, data)) for kind, (port, flag) in PORTS.items()]


def _port(kind: str, port: int, flag: str, ours: str | None) -> Finding:
    name = f"port {port} of the {kind}"
    if ours is not None:
        elsewhere = "" if ours.rstrip("/").endswith(f":{port}") else ", on another port"
        return Finding(name, "ok", f"ours serves at {ours}{elsewhere}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what lingers is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return Finding(name, "warn", f"taken: {error.strerror}", f"choose another with `stafette up {flag} PORT`")
    return Finding(name, "ok", "free")


def _disk_space(data: Path) -> list[Finding]:
    free = shutil.disk_usage(_existing(data)).free
    state: Literal["ok", "warn", "fail"] = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    remedy = None if state == "ok" else "make room, or choose another folder with --data"
    return [Finding("disk space", state, f"{free / GIBIBYTE:,.1f} GiB free for {data}", remedy)]


def _data_folder(data: Path) -> list[Finding]:
    place = _existing(data)
    if not place.is_dir():
        return [Finding("data folder", "fail", f"{place} is not a folder", "choose another with --data")]
    if not os.access(place, os.W_OK | os.X_OK):
        remedy = "choose another with --data, or become its owner"
        return [Finding("data folder", "fail", f"you may not write in {place}", remedy)]
    if place != data.resolve():
        return [Finding("data folder", "ok", f"{data} is made when it is needed")]
    if place.stat().st_mode & stat.S_IWOTH:
        return [Finding("data folder", "fail", f"everybody may write in {data}", f"chmod o-w {data}")]
    return [Finding("data folder", "ok", str(data))]


def _existing(data: Path) -> Path:
    """The data folder, or the nearest one above it that exists."""
    whole = data.resolve()
    return next(place for place in (whole, *whole.parents) if place.exists())


def _libraries() -> list[Finding]:
    findings = []
    for part, names in LIBRARIES.items():
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        found = f"not installed: {', '.join(missing)}" if missing else "installed"
        remedy = f"pip install 'stafette[{part}]'" if missing else None
        findings.append(Finding(f"libraries of the {part}", "warn" if missing else "ok", found, remedy))
    return findings
