"""The Ledger: what brokers write down for operators now and then. The Console reads it.

Each method is one call of one stored function, as in the Store, whose connections it uses.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stafette.database.store import Store

SLOT_SECONDS = 10.0
"""The finest slots of the history."""

STOCK_SECONDS = 600.0
"""How long counting may take: with very many messages longer than any other call, and nobody waits for it."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has done: so many of each, or in seconds added up."""

    sent: int = 0
    received: int = 0
    failed: int = 0
    refused: int = 0
    requests: int = 0
    batches: int = 0
    queue_seconds: float = 0.0
    database_seconds: float = 0.0

    def __sub__(self, before: Work) -> Work:
        """What came on top."""
        return Work(**{field: getattr(self, field) - getattr(before, field) for field in self.__struct_fields__})


class Ledger:
    """All that is written down in one database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def count_all_messages(self, *, pause: float, force: bool = False) -> bool:
        """Count all messages, unless another broker does or it is too soon after the last time; True when done."""
        sql = "SELECT stafette.count_all_messages($1, $2)"
        [[done]] = await self._store.fetch(sql, pause, force, seconds=STOCK_SECONDS)
        return bool(done)

    async def add_history(self, work: Work) -> None:
        """Add what a broker did in the last 10 seconds."""
        await self._store.fetch(
            "SELECT stafette.add_history($1, $2, $3, $4, $5, $6, $7, $8)", *msgspec.structs.astuple(work)
        )

    async def forget_history(self, *, limit: int) -> int:
        """Forget what is past its time, up to so much of each kind; returns how much it was."""
        return int(await self._store.value("SELECT stafette.forget_history($1)", limit))

    async def publish_figures(self, broker: int, figures: dict[str, Any]) -> None:
        """Let operators know how a broker is."""
        await self._store.fetch("SELECT stafette.publish_figures($1, $2)", broker, figures)
