"""What somebody can do who has not logged in: have no body read, keep nobody out, and pretend nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_urlsafe

import httpx
import pytest

from stafette.broker import secrets
from stafette.database.console import Console
from stafette.database.store import Store
from stafette.errors import NotAuthenticated
from stafette.web import operators
from stafette.web.bodies import BODY_BYTES, BYTES_IN_FLIGHT, IMPORT_BYTES, LOGIN_BYTES
from stafette.web.operators import AUDITED_FAILURES, COMMAND_LINE, MAX_FAILURES, Operators, new_secret
from tests.support.brokers import StartBroker
from tests.support.certificates import make_certificate
from tests.support.raw_http import Connect, answer_to
from tests.support.waiting import glance, until
from tests.support.web_process import Web, web_process

QUEUES = "/api/v1/queues"
HUGE = {"Content-Length": "150000000"}
JSON, TEXT = {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
CHUNKED = {"Transfer-Encoding": "chunked"}
EVIL = {"Origin": "https://evil.example"}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def session(web: Web) -> dict[str, str]:
    """The header of an administrator's browser."""
    async with web.api("") as browser:
        entered = await browser.post("/login", data={"secret": web.admin})
        return {"Cookie": entered.headers["set-cookie"].partition(";")[0]}


# Bodies


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (QUEUES, JSON | HUGE, 401),
        (QUEUES, JSON | CHUNKED, 401),
        (QUEUES, JSON | HUGE | bearer("guess"), 401),
        (QUEUES, TEXT | HUGE | EVIL, 403),
        (QUEUES, TEXT | HUGE, 415),
        ("/lab/import", MULTIPART | HUGE, 401),
        ("/login", MULTIPART | HUGE, 415),
        ("/login", FORM | HUGE, 413),
        ("/login", FORM | {"Content-Length": str(LOGIN_BYTES + 1)}, 413),
        ("/nowhere", HUGE, 401),
    ],
)
async def test_a_strangers_body_is_refused_before_it_comes(
    site: Web, path: str, headers: dict[str, str], status: int
) -> None:
    assert (await answer_to(site.url, "POST", path, headers)).status == status


async def test_a_login_in_chunks_is_read_as_far_as_its_limit(site: Web) -> None:
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    assert (await answer_to(site.url, "POST", "/login", FORM | CHUNKED, chunk * 2)).status == 413


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (QUEUES, JSON | {"Content-Length": str(BODY_BYTES + 1)}, 413),
        (QUEUES, TEXT | HUGE, 415),
        ("/lab/import", MULTIPART | {"Content-Length": str(IMPORT_BYTES + 1)}, 413),
    ],
)
async def test_an_administrators_body_has_limits_too(
    site: Web, path: str, headers: dict[str, str], status: int
) -> None:
    assert (await answer_to(site.url, "POST", path, headers | bearer(site.admin))).status == status


async def test_only_administrators_upload_and_with_a_token_that_comes_first(site: Web) -> None:
    upload = MULTIPART | HUGE
    assert (await answer_to(site.url, "POST", "/lab/import", upload | bearer(site.viewer))).status == 403
    cookie = await session(site)
    for path in ("/lab/import", "/lab/import?csrf=", "/lab/import?csrf=guess"):
        assert (await answer_to(site.url, "POST", path, upload | cookie)).status == 403
    async with site.api("") as browser:
        page = (await browser.get("/lab", headers=cookie | {"Accept": "text/html"})).text
        [action] = [part.partition('"')[0] for part in page.split('action="') if part.startswith("/lab/import")]
        files = {"file": ("series.zip", b"no zip")}
        uploaded = await browser.post(action, headers=cookie, files=files)
        assert (uploaded.status_code, uploaded.json()["error"]) == (400, "InvalidRequest")
        assert "series.zip" in uploaded.json()["message"]


async def test_large_bodies_share_a_budget(site: Web, connect: Connect) -> None:
    """As many administrators send the largest body as there is room for, and one more."""
    headers = JSON | bearer(site.admin) | {"Content-Length": str(BODY_BYTES), "Expect": "100-continue"}
    waiting = [await connect(site.url) for _ in range(BYTES_IN_FLIGHT // BODY_BYTES)]
    for connection in waiting:
        connection.begin("POST", QUEUES, headers)
        assert (await connection.answer()).status == 100
    assert (await answer_to(site.url, "POST", QUEUES, headers)).status == 429
    for connection in waiting:
        await connection.close()

    async def has_room() -> bool:
        return (await answer_to(site.url, "POST", QUEUES, headers)).status == 100

    await until(has_room, glance)


# Hosts and origins


async def test_only_our_own_names_are_answered(site: Web) -> None:
    for host in ("evil.example", "evil.example:7471", "", "["):
        async with site.api() as api:
            refused = await api.get("/api/v1/overview", headers={"Host": host})
        assert (refused.status_code, refused.json()["error"]) == (400, "InvalidRequest"), host
        assert (await answer_to(site.url, "GET", "/login", {"Host": host, "Accept": "text/html"})).status == 400
    assert (await answer_to(site.url, "GET", "/login", {"Host": "localhost:1"})).status == 200


async def test_further_names_and_proxies_are_the_operators_choice(
    database: str, brokers: StartBroker, tmp_path: Path
) -> None:
    _, broker = await brokers()
    options = ("--allowed-hosts", "console.example", "--trusted-proxies", "127.0.0.1")
    async with await Store.open(database) as store, web_process(database, tmp_path, broker, *options) as url:
        secret = await new_secret(Console(store.pool), "admin")
        proxied = {"Host": "console.example", "X-Forwarded-For": "6.6.6.6, 1.2.3.4", "X-Forwarded-Proto": "https"}
        async with httpx.AsyncClient(base_url=url, headers=proxied) as browser:
            entered = await browser.post(
                "/login", data={"secret": secret}, headers={"Origin": "https://console.example"}
            )
            assert entered.status_code == 303
            assert "secure" in entered.headers["set-cookie"].lower()
            assert "strict-transport-security" in entered.headers
            foreign = await browser.post(
                "/login", data={"secret": secret}, headers={"Origin": "http://console.example"}
            )
            assert foreign.status_code == 403
        [line] = [line for line in await Console(store.pool).audit.lines() if line.action == "log in"]
        assert line.address == "1.2.3.4"


async def test_https(database: str, brokers: StartBroker, tmp_path: Path, connect: Connect) -> None:
    _, broker = await brokers()
    certificate, key = make_certificate(tmp_path, "console")
    options = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    async with await Store.open(database) as store, web_process(database, tmp_path, broker, *options) as url:
        secret = await new_secret(Console(store.pool), "admin")
        trust = ssl.create_default_context(cafile=str(certificate))
        async with httpx.AsyncClient(base_url=url, verify=trust) as browser:
            page = await browser.get("/login")
            assert page.headers["strict-transport-security"].startswith("max-age=")
            login = {"secret": secret}
            by_http = await browser.post("/login", data=login, headers={"Origin": url.replace("https", "http")})
            assert by_http.status_code == 403
            entered = await browser.post("/login", data=login, headers={"Origin": url})
            assert entered.status_code == 303
            assert "secure" in entered.headers["set-cookie"].lower()
        silent = await connect(url.replace("https", "http"))
        assert await silent.end() == b"", "a handshake that does not begin is given up"


async def test_hsts_is_for_https_alone(site: Web) -> None:
    assert "strict-transport-security" not in (await answer_to(site.url, "GET", "/login")).headers


# Secrets


async def statuses(web: Web, number: int) -> Counter[int]:
    """What so many wrong guesses get that come at the same time, each from another address if one believes it."""
    async with web.api("guess") as guesser:
        answers = await asyncio.gather(
            *(guesser.get("/api/v1/overview", headers={"X-Forwarded-For": f"10.0.0.{n}"}) for n in range(number))
        )
    return Counter(answer.status_code for answer in answers)


async def test_guesses_are_counted_before_they_are_looked_at_and_the_right_secret_gets_in(web: Web) -> None:
    assert await statuses(web, 60) == {401: MAX_FAILURES, 429: 60 - MAX_FAILURES}
    async with web.api() as api:
        assert (await api.get("/api/v1/overview")).status_code == 200, "it was not used before"
        lines = (await api.get("/api/v1/audit")).json()["items"]
    failures = [(line["role"], line["address"], line["detail"]) for line in lines if line["action"] == "wrong secret"]
    assert [role for role, _, _ in failures] == ["stranger"] * 2
    assert {address for _, address, _ in failures} == {"127.0.0.1"}
    assert sorted(detail.partition(";")[0] for _, _, detail in failures) == ["", f"{MAX_FAILURES} within a minute"]
    async with web.api("") as browser:
        wrong = await browser.post("/login", data={"secret": "guess"})
        right = await browser.post("/login", data={"secret": web.viewer})
    assert (wrong.status_code, right.status_code) == (429, 303)


@pytest.fixture
async def console(database: str) -> AsyncIterator[Console]:
    async with await Store.open(database) as store:
        yield Console(store.pool)


async def test_a_hash_of_an_earlier_version_is_compared_within_limits_and_replaced(console: Console) -> None:
    secret = token_urlsafe(operators.SECRET_BYTES)
    await console.set_operator_secret(COMMAND_LINE, "viewer", secrets.hash_secret(secret))
    checked = Operators(console)
    guesses = await asyncio.gather(*(checked.by_secret("guess", "1.2.3.4") for _ in range(60)), return_exceptions=True)
    assert Counter(type(error).__name__ for error in guesses) == {
        "NotAuthenticated": MAX_FAILURES, "Overloaded": 60 - MAX_FAILURES
    }  # fmt: skip
    assert await checked.by_secret(secret, "1.2.3.5") == "viewer"
    assert await checked.by_secret(secret, "1.2.3.4") == "viewer", "now wrong ones keep nobody out"
    replaced = await console.operator_secret("viewer")
    assert replaced is not None
    assert operators.matches(secret, replaced)
    assert await Operators(console).by_secret(secret, "1.2.3.4") == "viewer"


async def test_a_secret_that_somebody_thought_of_keeps_its_slow_hash(console: Console) -> None:
    slow = secrets.hash_secret("hunter2")
    await console.set_operator_secret(COMMAND_LINE, "viewer", slow)
    assert await Operators(console).by_secret("hunter2", "1.2.3.4") == "viewer"
    assert await console.operator_secret("viewer") == slow


async def test_the_audit_is_not_flushed_by_guesses_from_many_addresses(console: Console) -> None:
    checked = Operators(console)
    for number in range(2 * AUDITED_FAILURES):
        with pytest.raises(NotAuthenticated):
            await checked.by_secret("guess", f"1.2.3.{number}")
    assert len(await console.audit.lines()) == AUDITED_FAILURES


# Connections


async def test_half_sent_requests_stop_nobody_and_fill_no_log(
    database: str, brokers: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    _, broker = await brokers()
    log, number = tmp_path / "web.log", 400
    async with web_process(database, tmp_path, broker, open_files=256, log=log) as url:
        half_sent = [await connect(url) for _ in range(number)]  # more than it may have descriptors
        for connection in half_sent:
            connection.begin("POST", "/login", FORM | {"Content-Length": "100"}, b"secret=")
        assert (await answer_to(url, "GET", "/login")).status == 200
        for _ in range(number):
            garbage = await connect(url)
            garbage.write(b"\x00 garbage\r\n\r\n")
            await garbage.end()
        assert (await answer_to(url, "GET", "/login")).status == 200
    assert 0 < log.read_text().count("Invalid HTTP request") < number
    assert "Too many open files" not in log.read_text()
