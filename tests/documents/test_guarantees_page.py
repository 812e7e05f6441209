"""The times in docs/explanation/guarantees.md and failover.md are those of the code; the tests it names are there."""

from __future__ import annotations

import re

from stafette.broker import limits
from stafette.broker.maintenance.delayed import PromoteDelayed
from stafette.broker.maintenance.expired import DropExpired
from stafette.broker.maintenance.leases import ExpireLeases
from stafette.client import failover
from stafette.database import connect, pool
from tests.support.document_pages import ROOT
from tests.support.reference_pages import DOCS, codes, plain

GUARANTEES = plain((DOCS / "explanation" / "guarantees.md").read_text())
FAILOVER = plain((DOCS / "how-to" / "failover.md").read_text())


def test_each_test_that_is_named_is_there() -> None:
    named = [name for name in codes(GUARANTEES) if re.fullmatch(r"[a-z_/]+\.py", name)]
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_what_comes_back_comes_as_soon_as_promised() -> None:
    assert "A lease that ran out comes back within about a second of it" in GUARANTEES
    assert ExpireLeases.seconds <= 1
    assert "a delayed message within a quarter of a second of its time" in GUARANTEES
    assert PromoteDelayed.seconds <= 0.25
    assert "is removed within seconds" in GUARANTEES
    assert DropExpired.seconds < 10


def test_answers_and_names_are_kept_as_long_as_promised() -> None:
    assert f"within {limits.REPLAY_SECONDS:g} seconds is dropped" in GUARANTEES
    assert failover.REPLAY_SECONDS == limits.REPLAY_SECONDS
    assert f"keeps its clients' names for {limits.BROKER_LEASE_SECONDS:g} seconds at most" in GUARANTEES


def test_a_lost_database_is_noticed_as_soon_as_promised() -> None:
    seconds = pool.PROBE_PAUSE + pool.PROBE_SECONDS
    assert f"at once and a silent one within {seconds:g} seconds" in GUARANTEES
    assert f"at once, a silent one within {seconds:g} seconds, and the promoted one within half a second" in FAILOVER
    assert connect.HEAD_START_SECONDS <= 0.5
    assert f"when a call has taken {connect.COMMAND_SECONDS:g} seconds" in FAILOVER
    assert f'outcome "unknown" after {connect.COMMAND_SECONDS:g} seconds' in FAILOVER
