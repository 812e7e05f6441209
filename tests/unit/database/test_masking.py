"""No password is in what is shown of a database URL."""

from __future__ import annotations

import json
import tomllib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.database.masking import MASK, masked, masked_tables, masked_text, masked_toml, without_secrets

PASSWORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=3, max_size=20).map(
    lambda text: f"Zq{text}Xj"  # begins and ends as nothing else in a URL does
)
HOSTS = st.sampled_from(["db", "db:5432", "a:5432,b:5433", "[::1]:5432", "%2Ftmp%2Fdb", ""])
USERS = st.sampled_from(["me", "", "me%40tenant", "a.b-c"])
FORMS = st.sampled_from(
    [
        "postgresql://{user}:{password}@{hosts}/app",
        "postgres://{user}:{password}@{hosts}",
        "postgresql+asyncpg://{user}:{password}@{hosts}/app",
        "mysql://{user}:{password}@{hosts}/app",
        "POSTGRESQL://{user}:{password}@{hosts}/app?sslmode=require",
        "postgresql://{user}@{hosts}/app?password={password}",
        "postgresql://{user}@{hosts}/app?sslmode=require&password={password}&host=/tmp",
        "postgresql://{hosts}/app?user={user}&PassWord={password}",
        "postgresql://{hosts}/app?pass%77ord={password}",
        "postgresql://{hosts}/app?sslpassword={password}&sslcert=/c.pem",
        "postgresql://{hosts}/app?options=-c%20my.password%3D{password}",
        "postgresql://{hosts}/app?{password}",
        "postgresql://{user}:{password}@{hosts},other:{password}@b/app?password={password}",
        "host=db user=me password={password} dbname=app",
        "host=db user=me sslpassword='{password}' password='{password}'",
        "{user}:{password}@db/app",
    ]
)


@st.composite
def urls(draw: st.DrawFn) -> tuple[str, str]:
    """A password, and a URL with it: encoded, in part or not at all."""
    password = draw(PASSWORDS)
    encoded = draw(st.sampled_from([quote(password, safe=""), quote(password, safe="/?#@:&= "), password]))
    url = draw(FORMS).format(user=draw(USERS), password=encoded, hosts=draw(HOSTS))
    return password, url


def assert_hidden(password: str, shown: str) -> None:
    """Neither the password nor its beginning and end are in what is shown."""
    assert password not in shown
    assert "Zq" not in shown
    assert "Xj" not in shown


@given(urls())
def test_no_password_is_in_what_is_shown_of_a_url(example: tuple[str, str]) -> None:
    password, url = example
    assert_hidden(password, masked(url))
    assert masked(masked(url)) == masked(url)


@given(urls())
def test_no_password_is_in_stored_tables(example: tuple[str, str]) -> None:
    password, url = example
    if url.startswith("mysql") or "://" not in url:
        return  # no database of an experiment
    tables = {"system": {"database": url}, "design": {"factors": {"d": {"levels": ["embedded", url]}}}}
    assert_hidden(password, json.dumps(masked_tables(tables), ensure_ascii=False))


@given(urls(), st.booleans())
def test_no_password_is_in_a_stored_file(example: tuple[str, str], multiline: bool) -> None:
    password, url = example
    if url.startswith("mysql") or "://" not in url:
        return
    escaped = json.dumps(url, ensure_ascii=False).replace("\x7f", "\\u007F")
    quoted = f'"""{escaped[1:-1]}"""' if multiline else escaped
    text = f"# it's the database\ndatabase = {quoted} # or {url}\nseed = 1\nother = ['''a\nb''']\n"
    stored = masked_toml(text)
    assert_hidden(password, stored)
    tables = tomllib.loads(stored)
    assert (tables["seed"], tables["other"]) == (1, ["a\nb"])
    assert MASK in tables["database"]


@given(PASSWORDS, FORMS)
def test_no_password_is_in_the_text_of_an_error(password: str, form: str) -> None:
    url = form.format(user="me", password=quote(password, safe=""), hosts="db")
    assert_hidden(password, without_secrets(f"it said {url}", url))
    assert_hidden(password, without_secrets(f"it said {password}", url))


@given(st.text(max_size=200))
def test_any_text_can_be_masked(text: str) -> None:
    for mask in (masked, masked_text, masked_toml):
        shown = mask(text)
        assert mask(shown) == shown
    without_secrets(text, text)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://stafette@/stafette?host=/tmp/stafette-1/ab&port=5432", None),
        ("postgresql://me@a:5432,b:5432/app?target_session_attrs=any", None),
        ("embedded", None),
        ("postgresql://me:secret@db.example:5432/app", "postgresql://me:***@db.example:5432/app"),
        (
            "postgresql://me@db/app?password=secret&sslmode=require",
            "postgresql://me@db/app?password=***&sslmode=require",
        ),
        ("postgresql://me@db/app?secret", "postgresql://me@db/app?***"),
        ("postgresql://me:se/cret@db/app", "postgresql://***"),
        ("host=db user=me password='a b'", "host=db user=me password=***"),
        ("password=a b", "***"),
    ],
)
def test_what_is_no_secret_is_shown(url: str, shown: str | None) -> None:
    assert masked(url) == (url if shown is None else shown)


def test_a_file_without_secrets_stays_as_it_is() -> None:
    text = '# it\'s a "comment"\n[system]\ndatabase = \'embedded\'\nquestion = """what\nnow?"""\n'
    assert masked_toml(text) == text


def test_a_url_in_a_sentence_is_masked_with_all_that_may_belong_to_it() -> None:
    assert masked_text("see postgresql://me:secret@db/app; ok") == "see postgresql://me:***@db/app; ok"
    assert masked_text("see postgresql://me:se cret@db/app") == "see postgresql://***"
    assert masked_text("with password=secret") == "with password=***"
