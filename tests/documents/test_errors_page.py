"""docs/errors.md is what the code has: every error, with its codes and group."""

from __future__ import annotations

import re

from stafette import errors
from stafette.broker.limits import BROKER_LEASE_SECONDS, MEBIBYTE, Limits
from stafette.broker.notifications import POLL_SECONDS
from stafette.cli import exits
from stafette.database import schema
from stafette.protocol import client
from stafette.protocol.messages import failure
from stafette.web.problems import status_of
from tests.support.reference_pages import DOCS, codes, plain, rows, section


def test_every_error_is_told_with_its_codes_and_group() -> None:
    for title, group, base in (
        ("Yours", "caller", errors.CallerError),
        ("Try again", "again", errors.TryAgain),
        ("Ours", "ours", errors.InternalError),
    ):
        told = [row[:5] for row in rows(section("errors.md", title), head="class | code")]
        assert told == [
            [f"`{kind.__name__}`", str(code), f"`{errors.SQLSTATE_CLASS}{code}`", str(status_of(kind(""))),
             str(exits.exit_code(kind("")))]
            for code, kind in sorted(errors.BY_CODE.items())
            if issubclass(kind, base)
        ]  # fmt: skip
        assert {failure(1, errors.BY_CODE[int(row[1])]("")).group for row in told} == {group}
    groups = rows((DOCS / "errors.md").read_text(), head="class | covers")
    bases = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and kind.__subclasses__()}
    assert {codes(row[0])[0] for row in groups} == (bases & set(vars(errors))) - set(leaves()) | {"InternalError"}


def leaves() -> list[str]:
    return [kind.__name__ for kind in errors.BY_CODE.values()]


def test_the_clients_own_errors_are_told() -> None:
    told = {codes(row[0])[0]: codes(row[1])[0] for row in rows(section("errors.md", "Try again"), head="class, in")}
    assert told == {
        name: kind.__mro__[1].__name__
        for name, kind in vars(client).items()
        if isinstance(kind, type) and issubclass(kind, errors.StafetteError) and kind.__module__ == client.__name__
    }


def test_what_sql_raises_is_what_the_functions_raise() -> None:
    sql = "".join(path.read_text() for path in schema.function_files())
    raised = {int(code) for code in re.findall(r"(?:raise_fault\(\s*|THEN )(1\d\d)\b", sql)} | {110}
    assert raised == {*range(100, 109), 110}
    assert "SQL raises 100 to 108 and 110" in plain(section("errors.md", "Yours"))


def test_the_limits_in_the_sentences_are_those_of_the_code() -> None:
    assert f"a frame is larger than the broker allows ({Limits().frame // MEBIBYTE} MiB)" in section(
        "errors.md", "Yours"
    )
    assert f"looks again every {POLL_SECONDS:g} seconds" in plain((DOCS / "sql-api.md").read_text())
    assert f"after {BROKER_LEASE_SECONDS:g} seconds without a heartbeat" in (DOCS / "metrics.md").read_text()
