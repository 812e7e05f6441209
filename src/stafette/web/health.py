"""Health checks of the overview: what is checked, its state, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from stafette.database.views import MessageCounts
from stafette.web.rendering import plural
from stafette.web.site import Site

STALE_COUNTS_SECONDS = 120.0
"""Brokers count messages more often than this, so older counts mean that no broker does."""
OLD_MESSAGE_SECONDS = 3600.0


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    state: Literal["good", "open", "bad"]
    detail: str


async def run_checks(site: Site, counts: MessageCounts) -> list[Check]:
    """All checks, the worst first."""
    now = datetime.now(UTC)
    checks = [_brokers(counts), _counts(counts, now), _dead_messages(counts), _oldest_message(counts, now)]
    checks += [
        Check(f"broker {broker.name}", "open", "draining; it accepts no new clients")
        for broker in await site.console.brokers()
        if broker.alive and broker.figures and broker.figures.get("draining")
    ]
    return sorted(checks, key=lambda check: ("bad", "open", "good").index(check.state))


def _brokers(counts: MessageCounts) -> Check:
    if not counts.brokers:
        return Check("brokers", "bad", "no broker is alive; start one with `stafette up` or `stafette broker`")
    return Check("brokers", "good", f"{counts.brokers} alive, {plural(counts.online, 'client')} online")


def _counts(counts: MessageCounts, now: datetime) -> Check:
    seconds = (now - counts.at).total_seconds()
    if seconds > STALE_COUNTS_SECONDS:
        return Check("counts", "open", f"messages last counted {seconds:,.0f} s ago; check that a broker is running")
    return Check("counts", "good", f"messages counted {seconds:,.0f} s ago, in {counts.seconds * 1000:,.0f} ms")


def _dead_messages(counts: MessageCounts) -> Check:
    if counts.dead:
        return Check(
            "dead messages", "open", f"{plural(counts.dead, 'message')}; find the cause, then redrive or delete"
        )
    return Check("dead messages", "good", "none")


def _oldest_message(counts: MessageCounts, now: datetime) -> Check:
    if counts.oldest_at is None:
        return Check("oldest message", "good", "no messages waiting")
    seconds = (now - counts.oldest_at).total_seconds()
    age = f"waiting for {seconds / 60:,.0f} minutes" if seconds > 120 else f"waiting for {seconds:,.0f} s"
    if seconds > OLD_MESSAGE_SECONDS:
        return Check("oldest message", "open", f"{age}; check that its queue has readers")
    return Check("oldest message", "good", age)
