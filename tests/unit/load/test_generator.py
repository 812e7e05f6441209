"""The load generator with tiny behaviours, on a real event loop: who starts what, and when."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from stafette.client.aio import Client
from stafette.client.tracing import INTENDED
from stafette.errors import Overloaded, QueueNotFound
from stafette.lab.behaviours.behaviour import Behaviour, ClientContext, Parameters
from stafette.lab.experiment.distribution import Fixed
from stafette.load.generator import ClientGroup, Defect, Generator, Participant, Progress, gaps, schedule
from stafette.load.precise_timer import SECOND


class Doing(Behaviour):
    """Does what it is told in each step."""

    def __init__(self, number: int, step: Callable[[Doing], Awaitable[None]]) -> None:
        client_context = ClientContext("tester", number, {"tester": 9}, (), random.Random(f"1:tester-{number}"))
        super().__init__(cast(Client, None), client_context, Parameters())
        self.starts: list[int] = []
        self._step = step

    async def step(self) -> None:
        self.starts.append(time.perf_counter_ns())
        await self._step(self)


async def nothing(_me: Doing) -> None:
    await asyncio.sleep(0)


def participant(behaviour: Behaviour, joins_at: float = 0.0) -> Participant:
    return Participant(behaviour.client_context.name, behaviour.step, behaviour.client_context.rng, joins_at)


def generator(*groups: ClientGroup, seconds: float, **options: Any) -> Generator:
    options.setdefault("report", lambda _progress: None)
    return Generator(groups, seconds=seconds, window=(0.0, seconds), requests=lambda: 0, **options)


def closed(*behaviours: Behaviour, think_time: float = 0.0) -> ClientGroup:
    return ClientGroup("doing", [participant(behaviour) for behaviour in behaviours], Fixed(fixed=think_time).draw)


def taken(rate: float, joins: list[float], distances: Any, seconds: float) -> list[tuple[float, int]]:
    return list(itertools.takewhile(lambda step: step[0] < seconds, schedule(joins, rate, distances)))


# Schedules of open loops


def test_poisson_arrivals_have_the_rate_and_the_spread_they_should_and_depend_on_the_seed_alone() -> None:
    def arrivals(seed: str) -> list[float]:
        return [at for at, _ in taken(50.0, [0.0, 0.0], gaps("poisson", random.Random(seed)), 200.0)]

    starts = arrivals("1:alice:0")
    assert len(starts) == pytest.approx(20_000, rel=0.03)
    apart = [later - earlier for earlier, later in itertools.pairwise(starts)]
    mean = sum(apart) / len(apart)
    deviation = (sum((gap - mean) ** 2 for gap in apart) / len(apart)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.05)  # memoryless
    assert arrivals("1:alice:0") == starts
    assert arrivals("1:alice:1") != starts


def test_constant_arrivals_are_evenly_spaced_and_interleave_between_processes() -> None:
    one = taken(8.0, [0.0], gaps("constant", random.Random(1), 0 / 2), 1.0)
    other = taken(8.0, [0.0], gaps("constant", random.Random(1), 1 / 2), 1.0)
    assert [at for at, _ in one] == [step / 8 for step in range(8)]
    assert [at for at, _ in other] == [1 / 16 + step / 8 for step in range(8)]


def test_the_rate_of_an_open_loop_grows_with_its_active_clients() -> None:
    steps = taken(2.0, [1.0, 1.0, 3.0], gaps("constant", random.Random(1), 1.0), 4.9)
    assert [at for at, _ in steps] == pytest.approx([1 + i / 4 for i in range(1, 8)] + [3 + i / 6 for i in range(12)])
    assert {active for at, active in steps if at < 2.9} == {2}
    assert {active for at, active in steps if at > 3.1} == {3}


async def test_open_loop_steps_carry_their_intended_start_and_go_to_the_clients_in_turn() -> None:
    intended: list[tuple[int, int]] = []

    async def note(behaviour: Doing) -> None:
        intended.append((behaviour.client_context.number, INTENDED.get()))
        await asyncio.sleep(0)

    team = [participant(Doing(number, note)) for number in (1, 2)]
    begin = time.perf_counter_ns()
    load = generator(ClientGroup("doing", team, None, 100.0), seconds=0.0999)
    await load.run(begin)
    assert [number for number, _ in intended] == [1, 2] * 9 + [1]
    moments = [(moment - begin) / SECOND for _, moment in intended]
    assert moments == pytest.approx([step / 200 for step in range(1, 20)])


async def test_a_late_generator_skips_nothing_and_counts_from_the_intended_start() -> None:
    async def hold_up_the_loop(behaviour: Doing) -> None:
        if len(behaviour.starts) == 1:
            time.sleep(0.1)

    catching_up, response_ms = [], []
    for _ in range(3):  # of which the one counts that whoever else is busy here has held up least
        reports: list[Progress] = []
        behaviour = Doing(1, hold_up_the_loop)
        begin = time.perf_counter_ns()
        load = generator(
            ClientGroup("doing", [participant(behaviour)], None, 1000.0), seconds=1.0495, report=reports.append
        )
        health = await load.run(begin)
        assert load.steps == 1049
        assert len([start for start in behaviour.starts if start - behaviour.starts[0] < 0.1 * SECOND]) == 1
        assert health.late.max > 90
        assert health.lag.max > 40
        assert reports[0].active == 1
        catching_up.append(behaviour.starts[99] - behaviour.starts[1])
        response_ms.append(reports[0].response_ms or 0)
    assert min(catching_up) < 0.1 * SECOND  # what was due meanwhile started at once
    assert 2.5 < min(response_ms) < 25  # 5, as a hundred of a thousand steps were 50 ms late


# Closed loops


async def test_a_closed_loop_thinks_between_steps() -> None:
    behaviour = Doing(1, nothing)
    load = generator(closed(behaviour, think_time=0.005), seconds=0.5)
    await load.run(time.perf_counter_ns())
    apart = [later - earlier for earlier, later in itertools.pairwise(behaviour.starts)]
    assert min(apart) >= 0.005 * SECOND
    assert 5 <= load.steps == len(behaviour.starts) <= 100


async def test_the_end_does_not_wait_for_a_client_that_thinks() -> None:
    load = generator(closed(Doing(1, nothing), think_time=60.0), seconds=0.02)
    async with asyncio.timeout(5):
        await load.run(time.perf_counter_ns())
    assert load.steps == 1


async def test_a_closed_ramp_starts_clients_at_their_time_and_those_after_the_end_never() -> None:
    first, second, third = (Doing(number, nothing) for number in (1, 2, 3))
    members = [participant(first), participant(second, 0.03), participant(third, 60.0)]
    begin = time.perf_counter_ns()
    async with asyncio.timeout(5):
        await generator(ClientGroup("doing", members, Fixed(fixed=0.001).draw), seconds=0.5).run(begin)
    assert first.starts[0] < second.starts[0]
    assert second.starts[0] - begin >= 0.03 * SECOND
    assert not third.starts


async def test_errors_are_counted_by_name_and_the_loop_goes_on() -> None:
    async def fail(behaviour: Doing) -> None:
        if len(behaviour.starts) <= 3:
            raise QueueNotFound("gone")
        if len(behaviour.starts) > 5:
            await asyncio.Event().wait()

    load = generator(closed(Doing(1, fail)), seconds=0.5, grace=0.0)
    await load.run(time.perf_counter_ns())
    assert load.errors == {"QueueNotFound": 3, "Cancelled": 1}
    assert load.steps == 5


async def test_an_outage_does_not_spin_and_a_success_ends_the_pauses() -> None:
    async def overloaded(behaviour: Doing) -> None:
        await asyncio.sleep(0)
        if len(behaviour.starts) % 4:
            raise Overloaded("too much")

    behaviour = Doing(1, overloaded)
    await generator(closed(behaviour), seconds=1.0).run(time.perf_counter_ns())
    apart = [(later - earlier) / SECOND for earlier, later in itertools.pairwise(behaviour.starts)]
    first, second, third = apart[::4], apart[1::4], apart[2::4]
    assert min(first) >= 0.01
    assert min(second) >= 0.02
    assert min(third) >= 0.04
    assert min(first[1:]) < 0.08  # the next of these; of several, in case somebody else is busy here


async def test_a_step_that_waits_for_nothing_does_not_starve_the_others() -> None:
    async def no_request(_me: Doing) -> None:
        pass

    busy, other = Doing(1, no_request), Doing(2, nothing)
    await generator(closed(busy, other), seconds=0.2).run(time.perf_counter_ns())
    assert len(other.starts) > 10


# The end


@pytest.mark.parametrize("rate", [None, 200.0], ids=["closed", "open"])
async def test_steps_under_way_at_the_end_may_finish_and_no_new_ones_start(rate: float | None) -> None:
    finished: list[int] = []

    async def slow(behaviour: Doing) -> None:
        await asyncio.sleep(0.5)
        finished.append(behaviour.client_context.number)

    behaviour = Doing(1, slow)
    begin = time.perf_counter_ns()
    load = generator(ClientGroup("doing", [participant(behaviour)], None, rate), seconds=0.2999)
    await load.run(begin)
    assert load.steps == len(finished) == len(behaviour.starts) == (1 if rate is None else 59)
    assert not load.errors


@pytest.mark.parametrize("rate", [None, 200.0], ids=["closed", "open"])
async def test_steps_that_do_not_end_are_cancelled_and_counted(rate: float | None) -> None:
    async def forever(_me: Doing) -> None:
        await asyncio.Event().wait()

    load = generator(ClientGroup("doing", [participant(Doing(1, forever))], None, rate), seconds=0.2999, grace=1.0)
    await load.run(time.perf_counter_ns())
    assert load.errors == {"Cancelled": 1 if rate is None else 59}


@pytest.mark.parametrize("rate", [None, 200.0], ids=["closed", "open"])
async def test_a_defect_of_a_behaviour_ends_the_run_with_a_sentence(rate: float | None) -> None:
    async def broken(behaviour: Doing) -> None:
        await asyncio.sleep(0)
        if len(behaviour.starts) >= 2:  # a generator that is late starts several at once
            raise KeyError("colour")

    load = generator(ClientGroup("mine.py:Doing", [participant(Doing(7, broken))], None, rate), seconds=60.0)
    async with asyncio.timeout(5):
        with pytest.raises(Defect, match=r"the behaviour mine.py:Doing failed as tester-7: KeyError: 'colour'"):
            await load.run(time.perf_counter_ns())


async def test_a_step_that_lets_out_a_cancellation_of_its_own_is_a_defect() -> None:
    async def cancels_itself(_me: Doing) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    async with asyncio.timeout(5):
        with pytest.raises(Defect, match="CancelledError"):
            await generator(closed(Doing(1, cancels_itself)), seconds=60.0).run(time.perf_counter_ns())


async def test_a_run_that_is_cancelled_leaves_no_task_behind() -> None:
    begun = asyncio.Event()

    async def forever(_me: Doing) -> None:
        begun.set()
        await asyncio.Event().wait()

    parties = (
        ClientGroup("doing", [participant(Doing(1, forever))], None, rate) for rate in (None, 500.0)
    )  # fmt: skip
    run = asyncio.create_task(generator(*parties, seconds=60.0).run(time.perf_counter_ns()))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert asyncio.all_tasks() == {asyncio.current_task()}
