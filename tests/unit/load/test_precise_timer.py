"""Timers that are punctual."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from stafette.load.precise_timer import PreciseTimer


async def sleepers(unit: int = 1000) -> tuple[list[int], list[int]]:
    """In which order some wake up, and how many nanoseconds late; their moments are in units of so many of these."""
    alarm, order, late = PreciseTimer(), [], []
    begin = time.perf_counter_ns()

    async def sleep(number: int, units: int) -> None:
        moment = begin + unit * units
        await alarm.until(moment)
        late.append(time.perf_counter_ns() - moment)
        order.append(number)

    tasks = [asyncio.create_task(sleep(*each)) for each in enumerate((5000, 1700, 2300, 0, 1700))]
    cancelled = asyncio.create_task(sleep(9, 1000))
    await asyncio.sleep(0)
    all_sleep = time.perf_counter_ns() < begin + unit * 1000
    cancelled.cancel()
    await asyncio.gather(*tasks)
    alarm.close()
    return (order, late) if all_sleep else await sleepers(10 * unit)  # somebody else had the processor


@pytest.mark.parametrize("with_timer", [True, False], ids=["timer of the kernel", "timers of the loop"])
def test_the_alarm_wakes_each_in_its_turn_and_never_early(with_timer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_timer:
        monkeypatch.setattr("stafette.load.precise_timer._KernelTimer.open", lambda: None)
    order, late = uvloop.run(sleepers())
    assert order == [3, 1, 4, 2, 0]
    assert min(late) >= 0


def test_the_timer_of_the_kernel_is_as_punctual_as_a_thread_that_sleeps() -> None:
    async def sleep_in_turn() -> tuple[list[int], list[int]]:  # so that whoever else is busy here holds up both
        alarm, late, thread_late = PreciseTimer(), [], []
        for microseconds in (1700, 600, 900) * 50:
            await asyncio.sleep(0)  # lets the loop, which knew nothing of the thread's sleep, look at the time
            moment = time.perf_counter_ns() + 1000 * microseconds
            await alarm.until(moment)
            late.append(time.perf_counter_ns() - moment)
            moment = time.perf_counter_ns() + 1000 * microseconds
            time.sleep(microseconds / 1e6)
            thread_late.append(time.perf_counter_ns() - moment)
        alarm.close()
        return late, thread_late

    late, thread_late = uvloop.run(sleep_in_turn())
    assert sum(sorted(late)[:75]) < 2 * sum(sorted(thread_late)[:75])  # the half that was held up least
