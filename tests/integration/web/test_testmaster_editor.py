"""Experiments on the pages: a form and a text that are one document, kept under safe names."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from stafette.errors import InvalidRequest
from stafette.lab.experiment.experiment_library import LIBRARY
from stafette.web.lab import editor, form
from tests.support.web_process import Web

TEXT = """\
# Why we do this.
name = "mine"  # a good name
question = "what then"

[run]
duration = 2.0   # short
repetitions = 2

[clients.alice]
behaviour = "alice"
count = 1

[clients.bob]
behaviour = "bob"
count = 1
"""


def test_a_field_changes_its_value_and_nothing_else() -> None:
    changed = form.set_field(TEXT, "run.duration", "3.5")
    assert changed == TEXT.replace("duration = 2.0 ", "duration = 3.5 ")
    assert form.set_field(changed, "run.duration", "2.0") == TEXT


@pytest.mark.parametrize(
    ("path", "typed", "found"),
    [
        ("title", "On “queues”", "On “queues”"),
        ("seed", "7", 7),
        ("system.brokers", "2", 2),
        ("run.repetitions", "{ within = 0.05 }", {"within": 0.05}),
        ("run.warm_up", "soon", "soon"),
        ("clients.alice.size", "{ uniform = [1, 9] }", {"uniform": [1, 9]}),
        ("thresholds.p99_ms", "< 50", "< 50"),
    ],
)
def test_what_is_typed_into_a_field_stands_in_the_text(path: str, typed: str, found: object) -> None:
    text = form.set_field(TEXT, path, typed)
    value = tomllib.loads(text)
    for key in path.split("."):
        value = value[key]
    assert value == found
    assert "# Why we do this." in text
    assert [field.value for part in form.parts(text) for field in part.fields if field.path == path] == [typed]


def test_groups_and_factors_come_and_go(tmp_path: Path) -> None:
    text = form.set_field(form.set_field(TEXT, "clients.+", "mix"), "design.factors.+", "clients")
    text = form.set_field(text, "design.factors.clients.levels", "1, 4, 16")
    checked = editor.check(text, tmp_path)
    assert checked.problems == []
    assert checked.plan is not None
    assert (checked.plan.points, checked.plan.runs) == (3, 6)
    back = form.set_field(form.set_field(text, "design.factors.clients.-", "yes"), "clients.mix.-", "yes")
    assert tomllib.loads(back) == tomllib.loads(TEXT)


def test_a_text_that_is_no_toml_cannot_be_changed_by_a_field() -> None:
    with pytest.raises(InvalidRequest, match="not valid TOML"):
        form.set_field("name = ", "seed", "1")


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("**/*.toml")), ids=lambda path: path.stem)
def test_the_whole_library_can_be_edited(path: Path) -> None:
    text = path.read_text()
    checked = editor.check(text, path.parent, name=path.stem)
    assert checked.problems == []
    assert checked.form
    for part in checked.form:
        for field in part.fields:
            if field.value and not field.path.endswith(("+", "-")) and field.path != "design.kind":
                again = form.set_field(text, field.path, field.value)
                assert tomllib.loads(again) == tomllib.loads(text), field.path


async def test_a_text_is_checked_as_it_is_typed(site: Web) -> None:
    async with site.api() as api:
        answer = await api.post("/lab/check", json={"text": TEXT.replace("count = 1", "count = -1", 1)})
        assert answer.status_code == 200
        [problem] = answer.json()["problems"]
        assert problem["line"] == 11
        assert "clients.alice.count is -1" in problem["message"]
        assert answer.json()["plan"] is None

        answer = await api.post("/lab/check", json={"text": TEXT, "field": "run.repetitions", "value": "5"})
        assert answer.json()["problems"] == []
        assert answer.json()["plan"] == {"points": 1, "runs": 10 // 2, "seconds": 5 * (5.0 + 2.0 + 2.0)}
        assert answer.json()["toml"] == TEXT.replace("repetitions = 2", "repetitions = 5")

        answer = await api.post("/lab/check", json={"text": 'name = "x\n'})
        assert answer.json()["form"] is None
        assert answer.json()["problems"][0]["line"] == 1
    async with site.api(site.viewer) as api:
        assert (await api.post("/lab/check", json={"text": TEXT})).status_code == 403


async def test_saving_keeps_only_what_can_be_run(web: Web) -> None:
    folder = web.data / "experiments"
    async with web.api() as api:
        answer = await api.post("/lab/experiments", data={"text": TEXT.replace('behaviour = "bob"', "")})
        assert answer.status_code == 400
        assert "behaviour" in answer.text
        assert not list(folder.glob("*"))

        answer = await api.post("/lab/experiments", data={"text": TEXT, "f:seed": "9", "o:seed": ""})
        assert answer.headers["location"] == "/lab/experiments/mine"
        assert tomllib.loads((folder / "mine.toml").read_text())["seed"] == 9
        assert stat.S_IMODE((folder / "mine.toml").stat().st_mode) == 0o600
        assert [path.name for path in folder.iterdir()] == ["mine.toml"]

        again = await api.post("/lab/experiments", data={"text": TEXT})
        assert again.status_code == 400
        assert "there is an experiment mine already" in again.text
        assert (await api.post("/lab/experiments", data={"text": TEXT, "before": "mine"})).status_code == 303

        page = await api.get("/lab/experiments/new", params={"kind": "own", "name": "mine"})
        assert "name = &#34;mine-copy&#34;  # a good name" in page.text


@pytest.mark.parametrize("name", ["../evil", "a/b", "UPPER", ".hidden", "", "x" * 61, "-a", "new"])
async def test_a_name_that_is_no_safe_file_name_is_refused(site: Web, name: str) -> None:
    before = set(site.data.glob("**/*.toml"))
    async with site.api() as api:
        answer = await api.post("/lab/experiments", data={"text": TEXT.replace('"mine"', f'"{name}"')})
        assert answer.status_code == 400
        assert set(site.data.glob("**/*.toml")) == before


@pytest.mark.parametrize("name", ["..%2F..%2Fetc%2Fpasswd", "~..", "%2Fetc%2Fpasswd", "nothing", "%00"])
async def test_no_address_leads_out_of_the_folders(site: Web, name: str) -> None:
    async with site.api() as api:
        for place in ("experiments", "library", "series", "queue"):
            answer = await api.get(f"/lab/{place}/{name}")
            assert answer.status_code == 404
            assert "there is no" in answer.json()["message"] or answer.status_code == 404


async def test_viewers_see_no_password(site: Web) -> None:
    (site.data / "experiments").mkdir(exist_ok=True)
    secret = TEXT + '\n[system]\ndatabase = "postgresql://me:hushhush@db/x"\n'
    (site.data / "experiments" / "far.toml").write_text(secret)
    async with site.api() as api:
        assert "hushhush" in (await api.get("/lab/experiments/far")).text
    async with site.api(site.viewer) as api:
        shown = (await api.get("/lab/experiments/far")).text
        assert "me:***@db" in shown
        assert "hushhush" not in shown
