"""The audit: who did what, and from where. A stored function that changes something writes its line itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from stafette.database.paging import check_limit
from stafette.database.pool import Pool

audit_log = logging.getLogger("stafette.audit")


@dataclass(frozen=True)
class Actor:
    """Who does something that is written to the audit, and from where."""

    role: str
    address: str


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator did. Field names are JSON keys of the REST API."""

    id: int
    at: datetime
    role: str
    address: str
    action: str
    subject: str
    detail: str


class Audit:
    """Acts in an operator's name, and shows who did what."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def act(self, actor: Actor, function: str, *arguments: Any) -> Any:
        """Call a function that writes its own line; returns its value.

        Its first two arguments are who does it and from where, the third is to what or for how long.
        """
        numbers = ", ".join(f"${number}" for number in range(1, len(arguments) + 3))
        sql = f"SELECT stafette.{function}({numbers})"  # our own names
        answer = await self._pool.value_alone(sql, actor.role, actor.address, *arguments)
        audit_log.info("%s from %s: %s %s", actor.role, actor.address, function, arguments[0])
        return answer

    async def record(self, actor: Actor, action: str, subject: str, detail: str = "") -> None:
        """Record what an operator did outside the database; the last 100,000 lines are kept."""
        sql = "SELECT stafette.record_action($1, $2, $3, $4, $5)"
        await self._pool.fetch(sql, actor.role, actor.address, action, subject, detail)
        audit_log.info("%s from %s: %s %s %s", actor.role, actor.address, action, subject, detail)

    async def lines(self, *, before: int | None = None, limit: int = 100) -> list[AuditLine]:
        """What operators did, the newest first, from before a line on."""
        rows = await self._pool.fetch("SELECT * FROM stafette.audit_lines($1, $2)", before, check_limit(limit))
        return [AuditLine(**row) for row in rows]
