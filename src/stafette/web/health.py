"""Whether all is well, in sentences: what was looked at, how it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from stafette.database.views import Stock
from stafette.web.site import Site

STOCK_SECONDS = 120.0
"""After this long without a count, whoever counts is missing."""
OLD_SECONDS = 3600.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: Literal["good", "open", "bad"]
    sentence: str


async def checks(site: Site, stock: Stock) -> list[Check]:
    """All checks, the worst first."""
    now = datetime.now(UTC)
    found = [_brokers(stock), _stock(stock, now), _dead(stock), _oldest(stock, now)]
    found += [
        Check(f"broker {broker.name}", "open", "it is draining: it takes no new clients")
        for broker in await site.console.brokers()
        if broker.alive and broker.figures and broker.figures.get("draining")
    ]
    return sorted(found, key=lambda check: ("bad", "open", "good").index(check.state))


def _brokers(stock: Stock) -> Check:
    if not stock.brokers:
        return Check("brokers", "bad", "no broker is alive; start one with `stafette up` or `stafette broker`")
    return Check("brokers", "good", f"{stock.brokers} alive, {stock.online:,} clients online")


def _stock(stock: Stock, now: datetime) -> Check:
    seconds = (now - stock.at).total_seconds()
    if seconds > STOCK_SECONDS:
        return Check(
            "counts", "open", f"messages were last counted {seconds:,.0f} s ago; brokers do that while they live"
        )
    return Check("counts", "good", f"messages were counted {seconds:,.0f} s ago, in {stock.seconds * 1000:,.0f} ms")


def _dead(stock: Stock) -> Check:
    if stock.dead:
        many = "1 message was" if stock.dead == 1 else f"{stock.dead:,} messages were"
        return Check("dead letters", "open", f"{many} delivered too often; see why, then redrive")
    return Check("dead letters", "good", "none")


def _oldest(stock: Stock, now: datetime) -> Check:
    if stock.oldest_at is None:
        return Check("oldest message", "good", "nothing waits")
    seconds = (now - stock.oldest_at).total_seconds()
    state: Literal["good", "open"] = "open" if seconds > OLD_SECONDS else "good"
    return Check(
        "oldest message",
        state,
        f"has waited for {seconds / 60:,.0f} minutes" if seconds > 120 else f"has waited for {seconds:,.0f} s",
    )
