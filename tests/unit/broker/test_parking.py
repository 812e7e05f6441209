"""Parked reads: who is woken, whose wait is over, and who is forgotten."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from stafette.broker.engine import Pending
from stafette.broker.parking import Parking
from stafette.broker.session import Session
from stafette.protocol import messages as wire


class Lot:
    """A parking that notes what it does with reads."""

    def __init__(self) -> None:
        self.retried: list[Pending] = []
        self.given_up: list[Pending] = []
        self.parking = Parking(retry=self.retried.append, give_up=self.given_up.append)
        self.session = Session(Mock(), timeout=1.0)

    def park(self, number: int, session: Session | None = None) -> Pending:
        pending = Pending(session or self.session, wire.Receive(number, wire.Selection("jobs"), 60.0), 0.0)
        pending.until = asyncio.get_running_loop().time() + 60
        self.parking.park(pending, "jobs")
        return pending


async def test_a_cancelled_read_gives_up_at_once_and_no_other_does() -> None:
    lot = Lot()
    first, second, other = lot.park(1), lot.park(2), lot.park(1, Session(Mock(), timeout=1.0))
    lot.parking.cancel(lot.session, 1)
    assert lot.given_up == [first]
    lot.parking.cancel(lot.session, 1)
    lot.parking.cancel(lot.session, 3)
    assert lot.given_up == [first]
    lot.parking.wake_all()
    assert lot.retried == [second, other]


async def test_a_read_that_is_cancelled_while_it_tries_again_has_no_time_left() -> None:
    lot = Lot()
    pending = lot.park(1)
    lot.parking.wake_all(["jobs"])
    assert lot.retried == [pending]
    lot.parking.cancel(lot.session, 1)
    assert lot.given_up == []  # its answer is on the way
    assert pending.until <= asyncio.get_running_loop().time()
    lot.parking.settled(pending)
    lot.parking.cancel(lot.session, 1)
    assert lot.given_up == []


async def test_who_has_left_is_forgotten_also_while_trying_again() -> None:
    lot = Lot()
    tries = lot.park(1)
    lot.parking.wake_all(["jobs"])
    assert lot.retried == [tries]
    waits = lot.park(2)
    lot.parking.forget(lot.session)
    assert len(lot.parking) == 0
    lot.parking.settled(tries)
    lot.parking.wake_all()
    assert waits not in lot.retried
    assert lot.parking._by_session == {}
