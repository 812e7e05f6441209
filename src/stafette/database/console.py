"""The Console: what operators look at and do, from any process that reaches the database.

Each method calls a stored function or two. Nothing here locks or deletes a message unless its name says so, and nothing
takes longer the more messages there are: counts are the brokers' last ones, and a page looks at a bounded number of
rows. What changes something writes its own line to the audit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import asyncpg
import msgspec

from stafette.database.audit import Actor, Audit
from stafette.database.paging import check_limit, format_position, parse_position, parse_queue_position
from stafette.database.pool import Pool
from stafette.database.queues import DEFAULT_OPTIONS, count_discarded
from stafette.database.views import (
    BrokerRow,
    ClientDetails,
    ClientRow,
    Depth,
    Found,
    HistoryPoint,
    MessageCounts,
    MessageDetails,
    MessageFilter,
    MessagePage,
    MessageRow,
    MessageState,
    NameCount,
    QueueDetails,
    QueueOrder,
    QueueRow,
    Role,
    Which,
)
from stafette.errors import ClientNotFound, InvalidRequest
from stafette.model import QueueOptions

ANY = MessageFilter()

MOST_LEASES = 100
"""How many of a client's leases are shown with it."""

FINEST_SPAN = 10
"""Seconds of a slot of the history."""

NUMBER = re.compile(r"\d{1,18}")

View = TypeVar("View", bound=msgspec.Struct)


class Console:
    """All that operators see and do in one database."""

    def __init__(self, pool: Pool) -> None:
        self.audit = Audit(pool)
        self._act = self.audit.act
        self._pool = pool
        self._fetch = pool.fetch
        self._value = pool.value

    # Everything at a glance

    async def message_counts(self) -> MessageCounts:
        """The last count of everything; before the first, up to 10,000 of each state are counted now."""
        [row] = await self._fetch("SELECT * FROM stafette.last_message_counts()")
        return MessageCounts(**row)

    async def history(self, *, since: datetime, span: int) -> list[HistoryPoint]:
        """What happened since then, in points of so many seconds, a multiple of 10; points without news are absent."""
        if span < FINEST_SPAN or span % FINEST_SPAN:
            raise InvalidRequest(f"span {span} is not a multiple of {FINEST_SPAN} seconds")
        rows = await self._fetch("SELECT * FROM stafette.history_points($1, $2)", since, span)
        return [HistoryPoint(**row) for row in rows]

    async def queue_history(self, queue: str, *, since: datetime) -> list[Depth]:
        """How long a queue was, minute by minute, while it was among the 100 longest."""
        rows = await self._fetch("SELECT * FROM stafette.depths_of_queue($1, $2)", queue, since)
        return [Depth(**row) for row in rows]

    async def brokers(self) -> list[BrokerRow]:
        """Brokers by name; those that died are shown for an hour."""
        return [BrokerRow(**row) for row in await self._fetch("SELECT * FROM stafette.list_brokers()")]

    async def search(self, text: str, *, limit: int = 20) -> Found:
        """Names that contain a text, in any case; for a number also messages with that context or id."""
        limit = check_limit(limit)
        names = await self._fetch("SELECT * FROM stafette.search_names($1, $2)", text.strip(), limit)
        messages = []
        if NUMBER.fullmatch(text.strip()):
            messages = await self._fetch("SELECT * FROM stafette.search_messages($1, $2)", int(text), limit)
        return Found(
            queues=[name for kind, name in names if kind == "queue"],
            clients=[name for kind, name in names if kind == "client"],
            messages=[_part(MessageRow, row) for row in messages],
        )

    # Queues and their messages

    async def queues(
        self,
        *,
        text: str = "",
        order: QueueOrder = "name",
        personal: bool | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> tuple[list[QueueRow], str | None]:
        """A page of the queues whose name contains a text, and where the next page begins."""
        key, name = parse_queue_position(after)
        rows = await self._fetch(
            "SELECT (queue).*, ready, delayed, leased, dead, oldest_at, sort_key"
            " FROM stafette.queue_page($1, $2, $3, $4, $5, $6)",
            text.strip(),
            order,
            personal,
            key,
            name,
            check_limit(limit) + 1,
        )
        page = [_part(QueueRow, row) for row in rows[:limit]]
        return page, f"{rows[limit - 1]['sort_key']}:{page[-1].name}" if len(rows) > limit else None

    async def queue(self, name: str) -> QueueDetails:
        """One queue."""
        [row] = await self._fetch(
            "SELECT (queue).*, ready, delayed, leased, dead, oldest_at, exact, counted_at, top_senders, top_receivers"
            " FROM stafette.queue_details($1)",
            name,
        )
        fields = dict(row)
        for name in ("top_senders", "top_receivers"):
            fields[name] = msgspec.convert(fields[name], list[NameCount])
        return QueueDetails(**fields)

    async def messages(
        self,
        queue: str,
        *,
        state: MessageState = "ready",
        where: MessageFilter = ANY,
        after: str | None = None,
        limit: int = 50,
    ) -> MessagePage:
        """A page of a queue: what is ready in the order in which each lane is read, all else in order of arrival."""
        rows = await self._fetch(
            "SELECT place, looked_at, matches, cut, (message).*"
            " FROM stafette.message_page($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            queue,
            state,
            where.sender,
            where.receiver,
            where.context,
            where.priority,
            where.older_than,
            where.newer_than,
            where.text.encode() if where.text else None,
            parse_position(after),
            check_limit(limit) + 1,
        )
        return _page(rows, limit)

    async def message(self, queue: str, id: int) -> MessageDetails | None:  # noqa: A002  # its field's name
        """One message in whichever state it is, or None when it has gone."""
        rows = await self._fetch("SELECT (message).*, body FROM stafette.find_message($1, $2)", queue, id)
        return _part(MessageDetails, rows[0]) if rows else None

    async def create_queue(self, actor: Actor, name: str, options: QueueOptions = DEFAULT_OPTIONS) -> QueueRow:
        """Make a queue, whose creator is shown as "operator"."""
        await self._act(actor, "create_queue_as_operator", name, options)
        return _part(QueueRow, msgspec.structs.asdict(await self.queue(name)))

    async def delete_queue(self, actor: Actor, queue: str, *, force: bool = False) -> None:
        """Delete an empty queue, or with force any, with all its messages; not a personal one."""
        await self._act(actor, "delete_queue_as_operator", queue, force)

    async def purge(self, actor: Actor, queue: str) -> int:
        """Hide all that waits in a queue, also in a personal one, for upkeep to delete; returns how many."""
        store = await self._act(actor, "purge_as_operator", queue)
        messages = await count_discarded(self._pool, store)
        await self._pool.fetch("SELECT stafette.record_purged($1, $2)", store, messages)
        return messages

    async def redrive(self, actor: Actor, queue: str) -> int:
        """Put a queue's dead messages back to ready; returns how many."""
        return int(await self._act(actor, "redrive", queue))

    async def delete_dead(self, actor: Actor, queue: str) -> int:
        """Remove a queue's dead messages for good; returns how many."""
        return int(await self._act(actor, "delete_dead", queue))

    # Clients

    async def clients(
        self, *, text: str = "", online: bool | None = None, after: str | None = None, limit: int = 50
    ) -> tuple[list[ClientRow], str | None]:
        """A page of the clients whose name contains a text, by name, and where the next page begins."""
        rows = await self._fetch(
            "SELECT * FROM stafette.client_page($1, $2, $3, $4)", text.strip(), online, after, check_limit(limit) + 1
        )
        page = [ClientRow(**row) for row in rows[:limit]]
        return page, page[-1].name if len(rows) > limit else None

    async def client(self, name: str) -> ClientDetails:
        """One client."""
        rows = await self._fetch("SELECT * FROM stafette.client_details($1)", name)
        if not rows:
            raise ClientNotFound(f"there is no client {name}")
        fields = dict(rows[0])
        for count in ("sent", "waiting"):
            fields[count] = msgspec.convert(fields[count], list[NameCount])
        held = await self._fetch("SELECT * FROM stafette.held_messages($1, $2)", fields["id"], MOST_LEASES)
        return ClientDetails(**fields, leases=[_part(MessageRow, row) for row in held])

    async def client_messages(
        self, name: str, which: Which, *, after: str | None = None, limit: int = 50
    ) -> MessagePage:
        """A page of the ready messages that a client has sent, or that wait for it."""
        rows = await self._fetch(
            "SELECT place, (message).* FROM stafette.client_message_page($1, $2, $3, $4)",
            name,
            which,
            parse_position(after),
            check_limit(limit) + 1,
        )
        page = sorted(rows, key=lambda row: row["place"])[:limit]
        return MessagePage(
            messages=[_part(MessageRow, row) for row in page],
            next=format_position(page[-1]["place"]) if len(rows) > limit else None,
            looked_at=len(page),
        )

    async def delete_client(self, actor: Actor, name: str) -> None:
        """Delete a client that is offline, with its personal queue and what waits for it."""
        await self._act(actor, "delete_client_as_operator", name)

    async def set_secret(self, actor: Actor, name: str, secret_hash: str | None) -> None:
        """Set or remove the hash of a client's secret."""
        await self._act(actor, "set_secret", name, secret_hash)

    async def claim_name(self, secret_hash: str) -> str:
        """Register the console's own name with the hash of its secret, unless another console has it at the moment.

        Returns the hash that counts now.
        """
        return str(await self._value("SELECT stafette.claim_console($1)", secret_hash))

    # Commands to brokers

    async def disconnect(self, actor: Actor, client: str) -> bool:
        """Tell a client's broker to end its session; False when it was offline."""
        return bool(await self._act(actor, "disconnect_client", client))

    async def drain(self, actor: Actor, broker_id: int) -> None:
        """Tell a broker to drain and end."""
        await self._act(actor, "drain_broker", broker_id)

    # Operators

    async def operator_secret(self, role: Role) -> str | None:
        """The hash of a role's secret, if it has one."""
        secret: str | None = await self._value("SELECT stafette.operator_secret($1)", role)
        return secret

    async def set_operator_secret(self, actor: Actor, role: Role, secret_hash: str | None) -> None:
        """Set or remove the hash of a role's secret; its sessions end."""
        await self._act(actor, "set_operator_secret", role, secret_hash)

    async def renew_operator_secret(self, role: Role, former_hash: str, secret_hash: str) -> None:
        """Store another hash of the same secret, unless the secret has changed meanwhile."""
        await self._fetch("SELECT stafette.renew_operator_secret($1, $2, $3)", role, former_hash, secret_hash)

    async def claim_operator(self, actor: Actor, role: Role, secret_hash: str) -> bool:
        """Set it only if there is none yet; True when that was so."""
        return bool(await self._act(actor, "claim_operator", role, secret_hash))

    async def open_session(self, actor: Actor, token_hash: bytes, *, seconds: float) -> None:
        """Remember for so long who has logged in."""
        await self._act(actor, "open_operator_session", seconds, token_hash)

    async def session(self, token_hash: bytes) -> Role | None:
        """The role of a session while it lasts."""
        role: Role | None = await self._value("SELECT stafette.operator_session($1)", token_hash)
        return role

    async def close_session(self, token_hash: bytes) -> None:
        """Forget a session."""
        await self._fetch("SELECT stafette.close_operator_session($1)", token_hash)


def _part(kind: type[View], row: asyncpg.Record | dict[str, Any]) -> View:
    """The columns of a row that are the fields of a struct."""
    return kind(**{field: row[field] for field in kind.__struct_fields__})


def _page(rows: Sequence[asyncpg.Record], limit: int) -> MessagePage:
    """A page of what message_page() gives: one match more than asked for, or a last row that says where it stopped."""
    messages: list[MessageRow] = []
    last: asyncpg.Record | None = None
    more = False
    for row in sorted(rows, key=lambda row: row["looked_at"]):
        if len(messages) == limit:
            more = True
            break
        last = row
        if row["matches"]:
            messages.append(_part(MessageRow, row))
        if row["cut"]:
            more = True
            break
    return MessagePage(
        messages=messages,
        next=format_position(last["place"]) if last and more else None,
        looked_at=last["looked_at"] if last else 0,
    )
