"""Two brokers over one database.

`connect` speaks to the first broker (`broker`) unless it is given the URL of the second (`elsewhere`).
"""

from __future__ import annotations

import pytest

from stafette.broker import notifications
from tests.support.brokers import StartBroker
from tests.support.waiting import A_DAY


@pytest.fixture(autouse=True)
def notifications_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No story may depend on the slow poll behind the notifications: a read that is not woken is seen to be missed."""
    monkeypatch.setattr(notifications, "POLL_SECONDS", A_DAY)


@pytest.fixture
async def elsewhere(brokers: StartBroker) -> str:
    """The URL of a second broker over the same database."""
    _, url = await brokers()
    return url
