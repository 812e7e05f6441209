"""Database URLs as they may be shown and stored: without anything that lets somebody in.

What is shown is listed; all else is masked. So a parameter that we do not know, a URL that can be read in two ways, and
one that cannot be read at all give nothing away.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

MASK = "***"

SHOWN = frozenset(
    {
        "host", "hostaddr", "port", "dbname", "database", "user", "passfile", "service", "application_name",
        "connect_timeout", "target_session_attrs", "load_balance_hosts", "channel_binding", "krbsrvname", "gsslib",
        "sslmode", "direct_tls", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslnegotiation",
        "ssl_min_protocol_version", "ssl_max_protocol_version",
    }
)  # fmt: skip
"""Parameters whose values may be seen."""
HIDDEN = frozenset({"password", "sslpassword", "options"})
"""Parameters whose names may be seen; of any other, the name may be a part of somebody's password."""

LEAST_SECRET = 4
"""Shorter secrets are not searched for in the texts of errors, which would become unreadable; none has them in it."""

_HOST = r"(?:\[[\w:.%]*\]|[\w.%-]*)(?::\d*)?"
_URL = re.compile(
    rf"(?:(?P<user>[^\s:/?\#@]*)(?::(?P<password>[^\s/?\#@]*))?@)?(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<path>/[\w.%~+-]*)?(?:\?(?P<query>[^\s\#@]*))?"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_WORD = re.compile(r"[\w.-]*")
_SHOWN_VALUE = re.compile(r"[\w.,:/%~+*\[\]-]*")
_PARAMETER = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?:\s+|$)", re.DOTALL)

_URL_IN_LINE = re.compile(r"(postgres(?:ql)?)(?:\+\w+)?://.*", re.IGNORECASE)
_END_OF_URL = re.compile(r"[\s\"'`<>|;)]")
_PASSWORD_IN_TEXT = re.compile(r"((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)", re.IGNORECASE)

_TOML_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\[^\n])*"'
    r"|'[^'\n]*'"
    r"|(?P<outside>\#[^\n]*|postgres(?:ql)?://[^\n]*)",
    re.DOTALL | re.IGNORECASE,
)


def masked(url: str) -> str:
    """A database URL, or a connection string of the form ``key=value``, that may be shown."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url if _WORD.fullmatch(url) else _masked_parameters(url)
    if _SCHEME.fullmatch(scheme) is None:
        return MASK
    if (parts := _URL.fullmatch(rest)) is None:
        return f"{scheme}://{MASK}"
    login = parts["user"] or ""
    if parts["password"] is not None:
        login += f":{MASK}"
    query = "" if parts["query"] is None else "?" + "&".join(map(_masked_item, parts["query"].split("&")))
    return f"{scheme}://{login}{'' if parts['user'] is None else '@'}{parts['hosts']}{parts['path'] or ''}{query}"


def _masked_item(item: str) -> str:
    key, separator, value = item.partition("=")
    name = unquote_plus(key).strip().lower()
    if name in SHOWN and separator and _SHOWN_VALUE.fullmatch(value):
        return item
    return f"{name}={MASK}" if name in SHOWN | HIDDEN and separator else MASK


def _masked_parameters(text: str) -> str:
    shown, position = [], 0
    while parameter := _PARAMETER.match(text, position):
        shown.append(_masked_item(f"{parameter[1]}={parameter[2]}"))
        position = parameter.end()
    return " ".join(shown) if shown and position == len(text) else MASK


def is_masked(text: str) -> bool:
    """Whether something was masked in this text, which therefore cannot be used to connect."""
    return MASK in text and masked_text(text) == text


def masked_text(text: str) -> str:
    """A text with all database URLs and passwords in it masked; a URL alone may have any character in it."""
    alone = text.strip()
    if "\n" not in alone and (begin := _URL_IN_LINE.match(alone)) and begin.start() == 0:
        return masked(alone)
    return _PASSWORD_IN_TEXT.sub(rf"\1{MASK}", _URL_IN_LINE.sub(_mask_in_line, text))


def _mask_in_line(line: re.Match[str]) -> str:
    """Where a URL ends in a sentence is a guess; if what follows could still belong to it, that is masked, too."""
    text = line[0]
    end = _END_OF_URL.search(text)
    url, rest = (text[: end.start()], text[end.start() :]) if end else (text, "")
    return f"{line[1]}://{MASK}" if "@" in rest or "://" in rest else masked(url) + rest


def masked_tables(value: Any) -> Any:
    """The same tables and lists, with all texts in them masked."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, Mapping):
        return {key: masked_tables(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked_tables(inner) for inner in value]
    return value


def masked_toml(text: str) -> str:
    """A TOML file with the database URLs masked in strings, however they are written, and in comments."""
    return _TOML_TOKEN.sub(_mask_token, text)


def _mask_token(token: re.Match[str]) -> str:
    if token["outside"] is not None:
        return _URL_IN_LINE.sub(rf"\1://{MASK}", token[0])
    try:
        value = tomllib.loads(f"value = {token[0]}")["value"]
    except tomllib.TOMLDecodeError:
        return json.dumps(MASK)
    shown = masked_text(value)
    return token[0] if shown == value else json.dumps(shown, ensure_ascii=False)


def without_secrets(text: str, url: str) -> str:
    """The text of an error about a database, without what its URL has of secrets."""
    _, separator, rest = url.partition("://")
    if not separator or (parts := _URL.fullmatch(rest)) is None:
        return "its URL cannot be read; percent-encode what is neither a letter nor a digit in user and password"
    values = [parts["password"] or ""]
    for item in (parts["query"] or "").split("&"):
        if _masked_item(item) != item:
            for form in (item, unquote_plus(item)):  # a value may have a setting in it, and that a password
                values += [form, *re.split(r"[=\s]+", form), *(form[sign.end() :] for sign in re.finditer("=", form))]
    secrets = {form for value in values for form in (value, unquote(value), unquote_plus(value))} - HIDDEN
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= LEAST_SECRET:
            text = text.replace(secret, MASK)
    return text
