"""`stafette factorial` on files as people have them, and one sentence for each that is wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from stafette.cli.factorial import factorial
from stafette.errors import InvalidRequest

ROWS = [(4, "small", 15), (16, "small", 45), (4, "wide", 25), (16, "wide", 75)]
REPEATED = [(4, "small", 18), (16, "small", 48), (4, "wide", 28), (16, "wide", 75)]

app = typer.Typer()
app.command()(factorial)


def table(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode())
    return path


def as_csv(rows: list[tuple[int, str, int]], separator: str = ",") -> str:
    return "\n".join(separator.join(map(str, row)) for row in [("memory", "cache", "rt"), *rows]) + "\n"


def output(path: Path, *options: str, factors: str = "memory,cache", response: str = "rt") -> str:
    """What it prints as data; an error comes through."""
    given = ["--factors", factors, "--response", response, *options]
    return CliRunner().invoke(app, [str(path), *given], catch_exceptions=False).stdout


def test_the_json_is_as_promised(tmp_path: Path) -> None:
    found = json.loads(output(table(tmp_path, as_csv(ROWS)), "--json"))
    assert found == {
        "effects": {"mean": 40, "memory": 20, "cache": 10, "memory:cache": 5},
        "variation": pytest.approx(
            {"memory": 40000 / 525, "cache": 10000 / 525, "memory:cache": 2500 / 525, "error": 0}
        ),
        "intervals": {},
    }
    found = json.loads(output(table(tmp_path, as_csv(ROWS + REPEATED)), "--json"))
    assert list(found["intervals"]) == ["mean", "memory", "cache", "memory:cache"]
    low, high = found["intervals"]["memory"]
    assert (low + high) / 2 == pytest.approx(found["effects"]["memory"])
    assert found["effects"]["memory"] == ((46.5 + 75) - (16.5 + 26.5)) / 4
    assert sum(found["variation"].values()) == pytest.approx(100)
    assert found["variation"]["error"] > 0


def test_a_level_and_logarithms(tmp_path: Path) -> None:
    path = table(tmp_path, as_csv(ROWS + REPEATED))
    narrow, wide = (json.loads(output(path, "--json", "--level", level))["intervals"] for level in ("0.5", "0.99"))
    assert wide["cache"][0] < narrow["cache"][0] < narrow["cache"][1] < wide["cache"][1]
    logarithms = json.loads(output(path, "--json", "--multiplicative"))
    assert logarithms["effects"]["memory"] == pytest.approx(math.log(45 * 48 * 75 * 75 / (15 * 18 * 25 * 28)) / 8)
    assert "times" in output(path, "--multiplicative")


def test_the_table_for_people_has_the_largest_effect_first(tmp_path: Path) -> None:
    lines = output(table(tmp_path, as_csv(ROWS + REPEATED))).splitlines()
    assert lines[0] == "rt, 2^2 combinations, 2 repetitions each"
    assert lines[1] == "memory: 4 is -1, 16 is +1"
    assert [line.split("\t")[0] for line in lines[4:]] == ["effect", "mean", "memory", "cache", "memory:cache", "error"]
    assert "\tyes" in lines[6]


def test_the_sign_table(tmp_path: Path) -> None:
    *_, header, first, _, _, last = output(table(tmp_path, as_csv(ROWS)), "--signs").splitlines()
    assert header == "mean\tmemory\tcache\tmemory:cache\trepetitions\tmean rt"
    assert (first, last) == ("1\t-1\t-1\t1\t1\t15.0", "1\t1\t1\t1\t1\t75.0")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_separators_marks_and_line_ends(tmp_path: Path, separator: str, start: str, line_end: str) -> None:
    text = start + as_csv(ROWS, separator).replace("\n", line_end) + line_end
    assert json.loads(output(table(tmp_path, text), "--json"))["effects"]["memory"] == 20


def test_decimal_commas_where_commas_do_not_separate(tmp_path: Path) -> None:
    path = table(tmp_path, "think;rt\n0,5;10\n1,5;12,5\n")
    assert json.loads(output(path, "--json", factors="think"))["effects"] == {"mean": 11.25, "think": 1.25}
    with pytest.raises(InvalidRequest, match="column rt has '1,234' in row 3, which is not a number"):
        output(table(tmp_path, "think;rt\n1;10.5\n2;1,234\n"), factors="think")


def test_names_may_be_anything_that_is_quoted(tmp_path: Path) -> None:
    path = table(tmp_path, '"a, b", größe ;x\n'.replace(";", ",") + "1,1,1\n2,1,2\n1,2,3\n2,2,5\n")
    found = json.loads(output(path, "--json", factors='"a, b", größe', response="x"))
    assert list(found["effects"]) == ["mean", "a, b", "größe", "a, b:größe"]


def test_a_run_that_is_lacking_is_said_beside_the_data(tmp_path: Path) -> None:
    path = table(tmp_path, as_csv(ROWS + REPEATED[:3]))
    result = CliRunner().invoke(app, [str(path), "--factors", "memory,cache", "--response", "rt", "--json"])
    assert "different numbers of repetitions" in result.stderr
    assert json.loads(result.stdout)["effects"]["mean"] == pytest.approx((16.5 + 46.5 + 26.5 + 75) / 4)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("", {}, "is empty; write a header"),
        ("memory,cache,rt\n", {}, "has a header but no rows"),
        (as_csv(ROWS), {"factors": "memory,disk"}, "has no column disk; its columns are memory, cache, rt"),
        (as_csv(ROWS), {"response": "time"}, "has no column time"),
        (as_csv(ROWS), {"factors": "memory,memory"}, "factor memory is named twice"),
        (as_csv(ROWS), {"factors": ""}, "there is no factor"),
        (as_csv(ROWS), {"factors": "rt,memory"}, "column rt is both factor and response"),
        (as_csv(ROWS[:1] + ROWS[2:3]), {}, r"column memory has one level \(4\) in every row"),
        (as_csv([*ROWS, (64, "wide", 1)]), {}, r"column memory has 3 levels \(4, 16, 64\), the third in row 6"),
        (as_csv(ROWS[:3]), {}, "there is no run with memory = 16, cache = wide"),
        (as_csv(ROWS).replace("45", "fast"), {}, "column rt has 'fast' in row 3, which is not a number"),
        (as_csv(ROWS).replace("45", "nan"), {}, "column rt has 'nan' in row 3, which is not a number"),
        (as_csv(ROWS).replace("45", "1e999"), {}, "column rt has '1e999' in row 3, which is not a number"),
        (as_csv(ROWS).replace("45", "4_5"), {}, "column rt has '4_5' in row 3, which is not a number"),
        (as_csv(ROWS).replace("45", ""), {}, "column rt is empty in row 3"),
        (as_csv(ROWS).replace("16,small", ",small"), {}, "column memory is empty in row 3"),
        (as_csv(ROWS).replace("16,small", "16"), {}, "row 3 has 2 columns and the header 3"),
        (as_csv(ROWS).replace("memory,", "cache,"), {"factors": "cache"}, "2 columns are named cache in row 1"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence) as raised:
        output(table(tmp_path, text), **options)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot read .*: no such file or directory"):
        output(tmp_path / "nowhere.csv")
    with pytest.raises(InvalidRequest, match=r"cannot read .*: is a directory"):
        output(tmp_path)
    path = tmp_path / "table.csv"
    path.write_bytes(as_csv(ROWS).encode("utf-16"))
    with pytest.raises(InvalidRequest, match="is not UTF-8 text"):
        output(path)
