"""docs/sql-api.md is what the database has: every function, with its arguments."""

from __future__ import annotations

import re

import asyncpg
import pytest

from stafette.database import schema
from tests.support.reference_pages import DOCS, codes, rows, section

SIGNATURES = """
SELECT proname, proargnames[1:pronargs] AS names,
       ARRAY(SELECT format_type(kind, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS a (kind, place) ORDER BY place)
           AS types,
       ARRAY(SELECT pg_get_function_arg_default(oid, place) FROM generate_series(1, pronargs) AS place) AS defaults,
       proargnames[pronargs + 1:] AS result_names,
       ARRAY(SELECT format_type(kind, NULL) FROM unnest(proallargtypes[pronargs + 1:]) AS kind) AS result_types
FROM pg_proc WHERE pronamespace = 'stafette'::regnamespace
"""
SHORT = {"timestamp with time zone": "timestamptz"}


def test_every_function_is_told_as_public_or_internal() -> None:
    public = re.findall(r"^## `stafette\.(\w+)\(", (DOCS / "sql-api.md").read_text(), re.MULTILINE)
    internal = [name for row in rows(section("sql-api.md", "Internal functions")) for name in codes(row[1])]
    assert len(internal) == len(set(internal))
    assert sorted([*public, *internal]) == sorted(path.stem for path in schema.function_files())


@pytest.mark.parametrize("function", ["send", "send_to_all", "receive"])
async def test_the_arguments_of_a_function_are_those_of_the_database(database: str, function: str) -> None:
    connection = await asyncpg.connect(database)
    known = {row["proname"]: row for row in await connection.fetch(SIGNATURES)}
    await connection.close()
    ours = known[function]
    expected = [
        [f"`{name}`", kind, re.sub(r"::[\w ]+", "", default or "")]
        for name, kind, default in zip(ours["names"], ours["types"], ours["defaults"], strict=True)
    ]
    page = (DOCS / "sql-api.md").read_text()
    told = {
        title: [row[:3] for row in rows(section("sql-api.md", f"`{title}`"), head="argument")]
        for title in re.findall(r"^## `(stafette\..*)`$", page, re.MULTILINE)
    }
    of = {re.sub(r"stafette\.(\w+).*", r"\1", title): arguments for title, arguments in told.items()}
    if function == "send_to_all":
        of[function] = [of["send"][0], *of[function], *of["send"][2:]]
    assert of[function] == expected
    if ours["result_names"]:
        [title] = [title for title in told if title.startswith(f"stafette.{function}(")]
        columns = [row[:2] for row in rows(section("sql-api.md", f"`{title}`"), head="column")]
        assert columns == [
            [f"`{name}`", SHORT.get(kind, kind)]
            for name, kind in zip(ours["result_names"], ours["result_types"], strict=True)
        ]


async def test_the_database_has_no_function_that_is_not_told(database: str) -> None:
    connection = await asyncpg.connect(database)
    known = {row["proname"] for row in await connection.fetch(SIGNATURES)}
    await connection.close()
    page = (DOCS / "sql-api.md").read_text()
    internal = {name for row in rows(section("sql-api.md", "Internal functions")) for name in codes(row[1])}
    assert known == internal | set(re.findall(r"^## `stafette\.(\w+)\(", page, re.MULTILINE))
