"""What clients are told when the database fails, and what only the log says."""

from __future__ import annotations

import asyncio
import logging

import asyncpg
import pytest

import stafette.aio
from stafette.broker.runtime import Runtime
from stafette.database.connect import translated_errors
from stafette.database.messages import Messages, ReadRequest
from stafette.database.pool import Pool
from stafette.errors import InternalError, InvalidRequest, StafetteError, Unavailable
from stafette.model import Selection
from stafette.protocol import messages as wire
from tests.support.brokers import Connect, StartBroker

URL = "postgresql://postman:secret@db.internal:5433/post_office"
SECRETS = ("postman", "secret", "db.internal", "5433", "post_office", "10.1.2.3")
FAILURES = [
    OSError(111, "Connect call failed ('10.1.2.3', 5433)"),
    TimeoutError(),
    asyncpg.InterfaceError("the connection to 10.1.2.3 is closed"),
    asyncpg.InvalidPasswordError('password authentication failed for user "postman"'),
    asyncpg.InvalidAuthorizationSpecificationError('no pg_hba.conf entry for host "10.1.2.3", user "postman"'),
    asyncpg.InvalidCatalogNameError('database "post_office" does not exist'),
    asyncpg.CannotConnectNowError("the database system of db.internal is starting up"),
    asyncpg.TooManyConnectionsError('too many connections for role "postman"'),
    asyncpg.InsufficientPrivilegeError('permission denied for database "post_office"'),
    asyncpg.UndefinedFunctionError("function post_office.send_batch does not exist"),
    asyncpg.SyntaxOrAccessError("something about postman"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_clients_are_not_told_where_the_database_is(failure: Exception) -> None:
    with pytest.raises(StafetteError) as caught, translated_errors(URL):
        raise failure
    error = caught.value
    assert error.confidential
    for text in (error.sentence, wire.failure(1, error).sentence):
        assert not any(secret in text for secret in SECRETS), text
        assert text
        assert not text.endswith(".")
    assert "secret" not in str(error).replace("secrets", "")
    assert isinstance(failure, TimeoutError) or any(secret in str(error) for secret in SECRETS)


def test_what_concerns_the_request_is_told_as_it_is() -> None:
    error = InvalidRequest("priority 11 is not between 1 and 10")
    assert (error.sentence, error.confidential) == (str(error), False)


async def test_a_client_and_the_log_of_a_broker_without_its_database(
    brokers: StartBroker, connect: Connect, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, url = await brokers()
    alice = await connect("alice", url, timeout=5.0)
    await alice.create_queue("jobs")
    user, place = "stafette@", database.partition("host=")[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "fetch", _unreachable(database))
        caplog.clear()
        for _ in range(3):
            with pytest.raises(Unavailable, match="the database cannot be reached") as caught:
                await alice.send("jobs", "m")
            assert user not in caught.value.sentence
            assert place not in caught.value.sentence
        with pytest.raises(StafetteError) as refused:
            await stafette.aio.connect(url, name="bob", timeout=0.5)
        assert user not in str(refused.value)
        logged = [record.getMessage() for record in caplog.records if record.name == Runtime.__module__]
        assert len(logged) == 1, "once, not for every call"
        assert place in logged[0]
        assert caplog.records[0].levelno == logging.ERROR


def _unreachable(url: str):  # type: ignore[no-untyped-def]
    async def fetch(self: Pool, sql: str, *arguments: object, seconds: float | None = None) -> list[asyncpg.Record]:
        await asyncio.sleep(0)
        with translated_errors(url):
            raise OSError(111, "Connect call failed")

    return fetch


class Rejecting(Pool):
    """Stands for a database that rejects a batch outright for the sake of some of its asks, and counts the calls."""

    def __init__(self, *odd: str) -> None:
        self.odd = odd
        self.calls = 0

    async def fetch(self, sql: str, *arguments: object, seconds: float | None = None) -> list[asyncpg.Record]:
        self.calls += 1
        queues = arguments[1]
        assert isinstance(queues, list)
        with translated_errors(URL):
            if set(self.odd) & set(queues):
                raise asyncpg.DataError("invalid byte sequence")
        return []


@pytest.mark.parametrize(("odd", "calls"), [((), 1), (("q7",), 2 * 9 + 1), (("q7", "q400"), 2 * (9 + 8) + 1)])
async def test_the_request_for_which_a_batch_is_rejected_is_found_by_halves(odd: tuple[str, ...], calls: int) -> None:
    pool = Rejecting(*odd)
    answers = await Messages(pool).receive([ReadRequest(1, Selection(f"q{number}")) for number in range(512)])
    assert {f"q{number}" for number, answer in enumerate(answers) if isinstance(answer, InvalidRequest)} == set(odd)
    assert sum(answer == [] for answer in answers) == 512 - len(odd)
    assert pool.calls == calls


async def test_a_batch_with_the_wrong_number_of_outcomes_is_answered(
    brokers: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)

    async def nothing(_batch: object) -> list[object]:
        return []

    monkeypatch.setattr(runtime._operations, "perform", nothing)
    with pytest.raises(InternalError):
        await alice.create_queue("jobs")
    monkeypatch.undo()
    await alice.create_queue("jobs")
