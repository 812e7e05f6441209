"""What runs, as whom, with which command, and who can reach it: the table that an administrator would want."""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

OTHERS = 0o077


@dataclass(frozen=True)
class Row:
    """A process."""

    user: str
    uids: frozenset[int]
    command: str
    listening: tuple[str, ...]
    is_exposed: bool
    """Whether it listens on an address of another machine's reach."""


def processes(folder: Path) -> list[Row]:
    """All processes that have a folder in their command, environment or working folder, and their descendants."""
    rows: dict[int, Row] = {}
    for process in psutil.process_iter():
        try:
            names = [*process.cmdline(), process.cwd() or "", *process.environ().values()]
            if not any(str(folder) in name for name in names) or process.pid == os.getpid():
                continue
            for member in (process, *process.children(recursive=True)):
                rows[member.pid] = _row(member)
        except psutil.Error:
            continue  # it has just ended
    return [rows[pid] for pid in sorted(rows)]


def _row(process: psutil.Process) -> Row:
    listening = [
        connection.laddr for connection in process.net_connections("inet") if connection.status == psutil.CONN_LISTEN
    ]
    return Row(
        user=process.username(),
        uids=frozenset(process.uids()),
        command=" ".join(process.cmdline()),
        listening=tuple(sorted(f"{address.ip}:{address.port}" for address in listening)),
        is_exposed=any(not ipaddress.ip_address(address.ip).is_loopback for address in listening),
    )


def files_open_to_others(folder: Path) -> list[str]:
    """Files and folders in it that others than their owner can read, write or enter."""
    found = []
    for path in folder.rglob("*"):
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & OTHERS:
            found.append(f"{stat.filemode(status.st_mode)} {path.relative_to(folder)}")
    return found


def markdown(rows: Iterable[Row]) -> str:
    """The table."""
    lines = ["| user | command | listens on |", "|---|---|---|"]
    lines += [f"| {row.user} | `{row.command}` | {', '.join(row.listening) or '-'} |" for row in rows]
    return "\n".join(lines)
