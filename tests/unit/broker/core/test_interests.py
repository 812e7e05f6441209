"""Who is notified of a send, and what is announced to the others."""

from __future__ import annotations

from stafette.broker.core.interests import Interests
from stafette.broker.core.waiting_reads import ANY_QUEUE


def test_a_send_notifies_those_who_wait_for_its_queue_or_for_any() -> None:
    interests = Interests()
    interests.learn({"jobs": {2, 3}, "mail": {4}, ANY_QUEUE: {3, 5}})
    interests.take_notifications()
    interests.sent("jobs")
    interests.sent("jobs")
    assert interests.take_notifications() == [(2, "jobs"), (3, "jobs"), (5, "jobs")]
    assert interests.take_notifications() == []


def test_a_send_that_nobody_elsewhere_waits_for_notifies_nobody() -> None:
    interests = Interests()
    interests.sent("jobs")
    interests.learn({"mail": {4}})
    interests.take_notifications()
    interests.sent("jobs")
    assert interests.take_notifications() == []


def test_a_new_interest_is_notified_at_once_and_an_old_one_is_not() -> None:
    interests = Interests()
    interests.learn({"jobs": {2}})
    assert interests.take_notifications() == [(2, "jobs")]
    interests.learn({"jobs": {2, 3}})
    assert interests.take_notifications() == [(3, "jobs")]
    interests.learn({})
    interests.learn({"jobs": {2}})
    assert interests.take_notifications() == [(2, "jobs")]


def test_only_what_has_not_been_announced_is_news() -> None:
    interests = Interests()
    interests.announced = {"jobs", ANY_QUEUE}
    interests.parked("jobs")
    interests.parked(None)
    assert not interests.has_news
    interests.parked("mail")
    assert interests.has_news
