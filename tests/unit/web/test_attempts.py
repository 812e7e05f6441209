"""Attempts are counted by address, within a minute, in bounded memory."""

from __future__ import annotations

from stafette.web.attempts import MOST_ADDRESSES, WINDOW_SECONDS, Attempts


def test_attempts_are_numbered_up_to_the_limit() -> None:
    attempts = Attempts(3)
    assert [attempts.count("1.2.3.4", 0.0) for _ in range(5)] == [1, 2, 3, 4, 4]
    assert attempts.count("1.2.3.5", 0.0) == 1


def test_they_are_forgotten_after_a_minute_whatever_came_in_between() -> None:
    attempts = Attempts(2)
    assert [attempts.count("1.2.3.4", 0.0), attempts.count("1.2.3.4", 30.0)] == [1, 2]
    assert [attempts.count("1.2.3.4", now) for now in (31.0, 59.0)] == [3, 3]
    assert attempts.count("1.2.3.4", WINDOW_SECONDS) == 2


def test_one_that_was_right_is_taken_back() -> None:
    attempts = Attempts(1)
    attempts.count("1.2.3.4", 0.0)
    attempts.forgive("1.2.3.4")
    attempts.forgive("nobody")
    assert attempts.count("1.2.3.4", 0.0) == 1


def test_one_customer_of_a_provider_is_one_address() -> None:
    attempts = Attempts(9)
    same = [attempts.count(address, 0.0) for address in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")]
    assert same == [1, 2, 1]
    assert [attempts.count(address, 0.0) for address in ("1.2.3.4", "::ffff:1.2.3.4", "-")] == [1, 2, 1]


def test_memory_is_bounded_and_those_are_forgotten_who_have_not_tried_for_longest() -> None:
    attempts = Attempts(9)
    for number in range(MOST_ADDRESSES):
        attempts.count(f"client {number}", 0.0)
    attempts.count("client 0", 0.0)
    attempts.count("another", 0.0)
    assert len(attempts) == MOST_ADDRESSES
    assert (attempts.count("client 0", 0.0), attempts.count("client 1", 0.0)) == (3, 1)
