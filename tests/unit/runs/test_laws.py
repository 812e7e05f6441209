"""Operational laws over figures that are known beforehand."""

from __future__ import annotations

import pytest

from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.laws import Flow, littles_law, tiers_add_up, utilisation

HINT = "; look for time that clients spend outside of requests, or too short a window"


def test_a_step_of_one_request() -> None:
    law = littles_law([Flow(per_s=50.0, mean_s=0.1)], ClosedLoop(20, 0.3))
    assert (law.name, law.expected, law.ok) == ("little", 20.0, True)
    assert law.measured == pytest.approx(20.0)
    assert law.detail == "Little's law holds: X·R + S·Z = 20.0 for 20 clients"


def test_clients_pause_once_per_step_however_many_requests_it_is() -> None:
    flows = [Flow(200.0, 0.005), Flow(200.0, 0.005)]  # 10 clients: two requests of 5 ms, then 40 ms
    assert littles_law(flows, ClosedLoop(10, 0.04, steps_per_s=200.0)).measured == pytest.approx(10.0)
    assert not littles_law(flows, ClosedLoop(10, 0.04)).ok


def test_requests_that_failed_take_their_time_too() -> None:
    assert littles_law([Flow(40.0, 0.1), Flow(10.0, 0.1)], ClosedLoop(20, 0.3)).ok
    assert not littles_law([Flow(40.0, 0.1)], ClosedLoop(20, 0.3)).ok


@pytest.mark.parametrize(("per_s", "ok"), [(95.1, True), (94.9, False), (104.9, True), (105.1, False)])
def test_little_may_be_off_by_a_cycle_in_twenty(per_s: float, ok: bool) -> None:
    law = littles_law([Flow(per_s, 1.0)], ClosedLoop(100, 0.0))
    assert law.ok is ok
    assert law.detail.endswith(HINT) is not ok


def test_a_loop_in_which_nothing_was_answered() -> None:
    assert littles_law([], ClosedLoop(3, 0.1)).detail == (
        f"Little's law does not hold: X·R + S·Z = 0.0 for 3 clients{HINT}"
    )


def test_no_part_uses_more_cores_than_it_has() -> None:
    law = utilisation("broker", 1.5, capacity=2.0, per_s=1000.0)
    assert (law.name, law.expected, law.measured, law.ok) == ("utilisation of broker", 2.0, 1.5, True)
    assert law.detail == "broker: U = X·S = 1.50 cores, 1.5 ms of processor time per request"
    assert utilisation("broker", 2.09, capacity=2.0, per_s=1.0).ok
    assert not utilisation("broker", 2.11, capacity=2.0, per_s=1.0).ok


def test_where_no_capacity_is_told_any_use_will_do() -> None:
    law = utilisation("database", 64.0, capacity=None, per_s=0.0)
    assert (law.expected, law.ok, law.detail) == (None, True, "database: U = X·S = 64.00 cores")


def test_the_phases_fit_into_what_the_client_saw() -> None:
    law = tiers_add_up(client_ms=10.0, unexplained_ms=1.0)
    assert (law.expected, law.measured, law.ok) == (10.0, 9.0, True)
    assert law.detail == "of 10 ms at the client, 9 are its own and the broker's phases"
    assert tiers_add_up(10.0, -0.09).ok
    apart = tiers_add_up(10.0, -0.11)
    assert not apart.ok
    assert apart.detail.endswith("which is more than the total; check the clocks of the machines")
